import { describe, expect, onTestFinished, test } from 'vitest';
import { type StandIn, type StandInOptions, startStandIn } from './stand-in.js';

// Only what no test of the synchroniser would notice: a client that is gentler than the limits never meets them.

/** 2026-08-20T09:10:29+03:00. */
const begin = Date.UTC(2026, 7, 20, 6, 10, 29);

async function call(standIn: StandIn): Promise<{ status: number; body: unknown }> {
	const body = JSON.stringify({ entityTypeId: 3 });
	const response = await fetch(`${standIn.webhookUrl}crm.item.fields.json`, { method: 'POST', body });
	return { status: response.status, body: await response.json() };
}

async function admitted(standIn: StandIn, calls: number): Promise<number> {
	let count = 0;
	for (let index = 0; index < calls; index++) {
		const { status } = await call(standIn);
		if (status === 200) count++;
	}
	return count;
}

/** A CRM with contacts of these IDs. */
async function startWith(ids: number, options: StandInOptions = {}) {
	const standIn = await startStandIn({ clock: () => begin, ...options });
	onTestFinished(() => standIn.close());
	for (let id = 1; id <= ids; id++) standIn.add({ lastName: `Contact ${id}` });
	return standIn;
}

interface BatchResult {
	result: Record<string, { items?: { id: number }[]; item?: { id: number } }>;
	result_error: Record<string, { error: string }>;
	result_total: Record<string, number>;
	result_next: Record<string, number>;
}

async function batch({ webhookUrl }: StandIn, cmd: unknown, halt: unknown = 0): Promise<BatchResult> {
	const response = await fetch(`${webhookUrl}batch`, { method: 'POST', body: JSON.stringify({ halt, cmd }) });
	expect(response.status).toBe(200);
	return ((await response.json()) as { result: BatchResult }).result;
}

const list = 'crm.item.list?entityTypeId=3';
const get = 'crm.item.get?entityTypeId=3';

test.each([
	['a query', 'GET', (url: string) => fetch(`${url}crm.item.list.json?entityTypeId=3&filter[>id]=100&order[id]=ASC`)],
	[
		'a form',
		'POST',
		(url: string) =>
			fetch(`${url}crm.item.list?request=7`, {
				method: 'POST',
				body: new URLSearchParams({ entityTypeId: '3', 'filter[>id]': '100', 'select[]': 'id' }),
			}),
	],
])('parameters come as %s too, with maps and lists in them', async (_, _method, send) => {
	const { webhookUrl } = await startWith(103);
	const { result } = (await (await send(webhookUrl)).json()) as { result: { items: { id: number }[] } };
	expect(result.items.map(({ id }) => id)).toEqual([101, 102, 103]);
});

describe('a batch', () => {
	test('obeys the nested parameters of its commands', async () => {
		const { result } = await batch(await startWith(103), { page: `${list}&filter%5B%3Eid%5D=100&select[]=id` });
		expect(result.page?.items?.map(({ id }) => id)).toEqual([101, 102, 103]);
	});

	test('may be a list, whose results are a list', async () => {
		const { result } = await batch(await startWith(3), [`${get}&id=2`, `${get}&id=3`]);
		expect(result).toMatchObject([{ item: { id: 2 } }, { item: { id: 3 } }]);
	});

	test('returns how many rows its lists have, and where their next pages begin', async () => {
		const { result_total: totals, result_next: next } = await batch(await startWith(51), { all: list });
		expect([totals, next]).toEqual([{ all: 51 }, { all: 50 }]);
	});

	test.each([
		[0, ['first', 'third']],
		[1, ['first']],
	])('with halt %d runs the commands %j of three, of which the second fails', async (halt, done) => {
		const standIn = await startWith(3);
		const commands = { first: `${get}&id=1`, second: `${get}&id=9`, third: `${get}&id=3` };
		const { result, result_error: errors } = await batch(standIn, commands, halt);
		expect([Object.keys(result), errors.second?.error]).toEqual([done, 'NOT_FOUND']);
	});

	test('hands the results of a command to later ones, and refuses a command whose reference has no result', async () => {
		const { result, result_error: errors } = await batch(await startWith(60), {
			page: `${list}&filter[>id]=30`,
			next: `${list}&filter[>id]=$result[page][items][9][id]`,
			none: `${get}&id=$result[page][items][99][id]`,
		});
		expect(result.next?.items?.[0]?.id).toBe(41);
		expect(errors).toMatchObject({ none: { error: 'INVALID_ARG_VALUE' } });
	});

	test('can’t contain a batch', async () => {
		const { result_error: errors } = await batch(await startWith(0), { inner: 'batch?cmd[a]=profile' });
		expect(errors.inner?.error).toBe('ERROR_BATCH_METHOD_NOT_ALLOWED');
	});

	test.each([
		['commands', 200, 'OPERATION_TIME_LIMIT'],
		['batch', 429, undefined],
	] as const)('that has used up its operating time, where %s are billed', async (billing, status, code) => {
		const standIn = await startWith(1, {
			billing,
			operatingSecondsPerCall: { 'crm.item.get': 10 },
			operatingLimitSeconds: 5,
		});
		await batch(standIn, { a: `${get}&id=1` });
		const body = JSON.stringify({ cmd: { a: `${get}&id=1` } });
		const response = await fetch(`${standIn.webhookUrl}batch`, { method: 'POST', body });
		const { result } = (await response.json()) as { result?: BatchResult };
		expect([response.status, result?.result_error.a?.error]).toEqual([status, code]);
		const direct = await fetch(`${standIn.webhookUrl}${get}&id=1`);
		expect(direct.status).toBe(billing === 'batch' ? 200 : 429);
	});
});

test.each([
	[list, { 'filter[@id][]': '1' }],
	[list, { 'filter[0][logic]': 'OR' }],
	[list, { 'filter[>id]': 'abc' }],
	[list, { 'filter[@categoryId][]': 'general' }],
	[list, { 'filter[categoryId]': '0' }],
	[list, { 'order[name]': 'ASC' }],
	[list, { 'order[id]': 'up' }],
	[list, { useOriginalUfNames: 'Y' }],
])(
	'%s with %j, which is not supported, is refused as the CRM refuses parameters, without rows',
	async (call, params) => {
		const { webhookUrl } = await startWith(3);
		const response = await fetch(`${webhookUrl}${call}&${new URLSearchParams(params)}`);
		expect([response.status, await response.json()]).toMatchObject([400, { error: 'INVALID_ARG_VALUE' }]);
	},
);

test('a list in descending order begins at its end, counted or not', async () => {
	const { webhookUrl } = await startWith(60);
	for (const start of [0, -1]) {
		const response = await fetch(`${webhookUrl}${list}&order[id]=DESC&start=${start}`);
		const { result } = (await response.json()) as { result: { items: { id: number }[] } };
		expect(result.items[0]?.id).toBe(60);
	}
});

test.each([
	['standard', 50, 2],
	['enterprise', 250, 5],
] as const)(
	'the rate limit of the plan %s admits %d requests, and %d more each second',
	async (plan, threshold, fall) => {
		let now = begin;
		const standIn = await startStandIn({ plan, clock: () => now });
		onTestFinished(() => standIn.close());
		expect(await admitted(standIn, threshold)).toBe(threshold);
		expect(standIn.highestRequestCount).toBe(threshold);
		now += 1000;
		expect(await admitted(standIn, fall)).toBe(fall);
		expect(standIn.blockedRequests).toBe(0);
		expect(await call(standIn)).toEqual({
			status: 503,
			body: { error: 'QUERY_LIMIT_EXCEEDED', error_description: 'Too many requests' },
		});
		// A refused request counts too.
		now += 1000;
		expect(await admitted(standIn, fall + 1)).toBe(fall - 1);
	},
);
