import { describe, expect, onTestFinished, test } from 'vitest';
import { sampleContacts } from './sample-contacts.js';
import { type StandIn, type StandInOptions, startStandIn } from './stand-in.js';

// Only what no test of the synchroniser would notice: a client that is gentler than the limits never meets them.

/** 2026-08-20T09:10:29+03:00. */
const begin = Date.UTC(2026, 7, 20, 6, 10, 29);

async function start(options: StandInOptions = {}) {
	let now = begin;
	const standIn = await startStandIn({ plan: 'enterprise', clock: () => now, ...options });
	onTestFinished(() => standIn.close());
	const passSeconds = (seconds: number) => {
		now += seconds * 1000;
	};
	return { standIn, passSeconds };
}

interface Reply {
	status: number;
	// biome-ignore lint/suspicious/noExplicitAny: the tests say what they expect in it
	body: any;
}

async function call(standIn: StandIn, method: string, params: object = { entityTypeId: 3 }): Promise<Reply> {
	const response = await fetch(`${standIn.webhookUrl}${method}.json`, { method: 'POST', body: JSON.stringify(params) });
	return { status: response.status, body: await response.json() };
}

async function admitted(standIn: StandIn, calls: number): Promise<number> {
	let count = 0;
	for (let index = 0; index < calls; index++) {
		const { status } = await call(standIn, 'crm.item.fields');
		if (status === 200) count++;
	}
	return count;
}

describe('the rate limit', () => {
	test.each([
		['standard', 50, 2],
		['enterprise', 250, 5],
	] as const)('of the plan %s admits %d requests, and %d more each second', async (plan, threshold, fall) => {
		const { standIn, passSeconds } = await start({ plan });
		expect(await admitted(standIn, threshold)).toBe(threshold);
		expect(standIn.highestRequestCount).toBe(threshold);
		passSeconds(1);
		expect(await admitted(standIn, fall)).toBe(fall);
		expect(standIn.blockedRequests).toBe(0);
		expect(await call(standIn, 'crm.item.fields')).toEqual({
			status: 503,
			body: { error: 'QUERY_LIMIT_EXCEEDED', error_description: 'Too many requests' },
		});
		// A refused request counts too.
		passSeconds(1);
		expect(await admitted(standIn, fall + 1)).toBe(fall - 1);
	});

	test('counts a batch once', async () => {
		const { standIn } = await start({ plan: 'standard' });
		const cmd = { a: 'crm.item.fields?entityTypeId=3', b: 'crm.item.fields?entityTypeId=3' };
		for (let index = 0; index < 50; index++) expect((await call(standIn, 'batch', { cmd })).status).toBe(200);
		expect((await call(standIn, 'batch', { cmd })).status).toBe(503);
	});
});

test('the limit of operating time refuses one method until its oldest minutes are ten minutes ago', async () => {
	const { standIn, passSeconds } = await start({ operatingSecondsPerCall: { 'crm.item.list': 200 } });
	const list = () => call(standIn, 'crm.item.list');
	for (const operating of [200, 400, 600]) {
		const { body } = await list();
		expect(body.time).toMatchObject({ operating, operating_reset_at: begin / 1000 + 600 });
		passSeconds(100);
	}
	expect(await list()).toMatchObject({ status: 429, body: { error: 'OPERATION_TIME_LIMIT' } });
	expect((await call(standIn, 'crm.item.fields')).status).toBe(200);
	expect(standIn.blockedOperations).toBe(1);
	passSeconds(299);
	expect((await list()).status).toBe(429);
	passSeconds(1);
	expect((await list()).status).toBe(200);
	expect((await list()).status).toBe(429);
});

describe('a batch', () => {
	const get = (id: number) => `crm.item.get?entityTypeId=3&id=${id}`;

	test('has the status 200 and the errors of its commands beside their results', async () => {
		const { standIn } = await start({ operatingSecondsPerCall: { 'crm.item.get': 300 } });
		standIn.add({ id: 1 });
		const cmd = { a: get(1), b: get(2), c: get(1), d: 'batch?cmd[a]=b' };
		const { status, body } = await call(standIn, 'batch', { halt: 0, cmd });
		expect(status).toBe(200);
		expect(body.result.result).toMatchObject({ a: { item: { id: 1 } } });
		expect(Object.keys(body.result.result_time)).toEqual(['a']);
		expect(body.result.result_error).toMatchObject({
			b: { error: 'NOT_FOUND' },
			c: { error: 'OPERATION_TIME_LIMIT' },
			d: { error: 'ERROR_METHOD_NOT_FOUND' },
		});
	});

	test('refuses its 51st command', async () => {
		const { standIn } = await start();
		const cmd = Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`c${index}`, get(index)]));
		const { body } = await call(standIn, 'batch', { cmd });
		expect(body.result.result_error).toMatchObject({
			c49: { error: 'NOT_FOUND' },
			c50: { error: 'ERROR_BATCH_LENGTH_EXCEEDED' },
		});
	});
});

describe('a list', () => {
	test('counts only if `start` is not negative, and has `next` while there are more', async () => {
		const { standIn } = await start({ contacts: sampleContacts(60) });
		const list = async (start: number) => {
			const { body } = await call(standIn, 'crm.item.list', { entityTypeId: 3, start });
			return [body.result.items.length, body.total, body.next];
		};
		expect(await list(0)).toEqual([50, 60, 50]);
		expect(await list(50)).toEqual([10, 60, undefined]);
		expect(await list(-1)).toEqual([50, 0, undefined]);
	});

	test('has `fm` only with all fields, and refuses unknown fields of a filter', async () => {
		const { standIn } = await start({ contacts: sampleContacts(3) });
		const list = (params: object) => call(standIn, 'crm.item.list', { entityTypeId: 3, ...params });
		expect((await list({ select: ['id', 'fm', 'unknown'] })).body.result.items[0]).toEqual({ id: 1 });
		expect((await list({ select: ['*'] })).body.result.items[0]).toHaveProperty('fm');
		expect(await list({ filter: { '>=changed': 1 } })).toMatchObject({
			status: 400,
			body: { error: 'INVALID_ARG_VALUE' },
		});
	});

	test('reads a date without an offset in the portal’s zone, in whole seconds', async () => {
		const { standIn } = await start();
		standIn.add({ updatedTime: new Date(begin + 999) });
		const found = async (since: string) => {
			const filter = { '>=updatedTime': since };
			return (await call(standIn, 'crm.item.list', { entityTypeId: 3, filter })).body.result.items.length;
		};
		const times = [
			'2026-08-20T09:10:29',
			'2026-08-20T06:10:29+00:00',
			'2026-08-20T09:10:30',
			'2026-08-20T06:10:30+00:00',
		];
		expect(await Promise.all(times.map(found))).toEqual([1, 1, 0, 0]);
	});
});
