import { expect, onTestFinished, test } from 'vitest';
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
	body: unknown;
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

test.each([
	['standard', 50, 2],
	['enterprise', 250, 5],
] as const)(
	'the rate limit of the plan %s admits %d requests, and %d more each second',
	async (plan, threshold, fall) => {
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
	},
);

test('the limit of operating time refuses one method until its oldest minutes are ten minutes ago', async () => {
	const { standIn, passSeconds } = await start({ operatingSecondsPerCall: { 'crm.item.list': 200 } });
	const list = () => call(standIn, 'crm.item.list');
	for (const operating of [200, 400, 600]) {
		const time = { operating, operating_reset_at: begin / 1000 + 600 };
		expect(await list()).toMatchObject({ body: { time } });
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

test('a batch refuses its 51st command', async () => {
	const { standIn } = await start();
	const get = (id: number) => `crm.item.get?entityTypeId=3&id=${id}`;
	const cmd = Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`c${index}`, get(index)]));
	const errors = { c49: { error: 'NOT_FOUND' }, c50: { error: 'ERROR_BATCH_LENGTH_EXCEEDED' } };
	expect(await call(standIn, 'batch', { cmd })).toMatchObject({ body: { result: { result_error: errors } } });
});
