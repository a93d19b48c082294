import { describe, expect, it } from 'vitest';
import type { StandIn } from './stand-in.js';
import { type BatchResult, Clock, call, itemList, portal, upTo } from './testing/client.js';

async function statuses(standIn: StandIn, count: number): Promise<number[]> {
	const all: number[] = [];
	for (let index = 0; index < count; index++) all.push((await call(standIn, 'profile')).status);
	return all;
}

const passed = (all: number[]) => all.filter((status) => status === 200).length;

describe('the rate limit', () => {
	it.each([
		['standard', 50, 2],
		['enterprise', 250, 5],
	] as const)('of the plan %s lets %d pass, and %d more each second [DOC]', async (plan, threshold, fall) => {
		const clock = new Clock();
		const standIn = await portal({ plan, clock: clock.read });
		expect(passed(await statuses(standIn, threshold))).toBe(threshold);
		expect(standIn.blockedRequests).toBe(0);
		expect(standIn.highestRequestCount).toBe(threshold);
		clock.passSeconds(1);
		expect(passed(await statuses(standIn, fall))).toBe(fall);
		expect(await statuses(standIn, 1)).toEqual([503]);
		expect(standIn.blockedRequests).toBe(1);
		expect((await call(standIn, 'profile')).body).toEqual({
			error: 'QUERY_LIMIT_EXCEEDED',
			error_description: 'Too many requests',
		});
		expect(standIn.requests.at(-1)).toMatchObject({ status: 503, error: 'QUERY_LIMIT_EXCEEDED' });
	});

	it.each([
		[true, 0],
		[false, 2],
	])('counts what it refuses: %s [??]', async (blockedCallsCount, afterASecond) => {
		const clock = new Clock();
		const standIn = await portal({ plan: 'standard', clock: clock.read, switches: { blockedCallsCount } });
		await statuses(standIn, 60);
		expect(standIn.blockedRequests).toBe(10);
		clock.passSeconds(1);
		expect(passed(await statuses(standIn, 3))).toBe(afterASecond);
	});

	it('never refuses two calls a second, and accepts a whole burst after a minute [DOC]', async () => {
		const clock = new Clock();
		const standIn = await portal({ plan: 'standard', clock: clock.read });
		for (let second = 0; second < 60; second++) {
			expect(passed(await statuses(standIn, 2))).toBe(2);
			clock.passSeconds(1);
		}
		clock.passSeconds(60);
		expect(passed(await statuses(standIn, 50))).toBe(50);
		expect(standIn.blockedRequests).toBe(0);
	});

	it('counts a batch once, whatever is in it [DOC]', async () => {
		const standIn = await portal({ plan: 'standard' });
		const cmd = Object.fromEntries(upTo(50).map((index) => [`c${index}`, 'profile']));
		for (let index = 0; index < 50; index++)
			expect((await call<BatchResult>(standIn, 'batch', { cmd })).status).toBe(200);
		expect((await call<BatchResult>(standIn, 'batch', { cmd })).status).toBe(503);
	});

	it.each([null, 3])('sends the header Retry-After: %s [??]', async (retryAfter) => {
		const standIn = await portal({ plan: 'standard', switches: { retryAfter } });
		await statuses(standIn, 50);
		const { headers } = await call(standIn, 'profile');
		expect(headers.get('retry-after')).toBe(retryAfter === null ? null : '3');
	});

	it('calls no hook and uses no fault for a request that it refuses', async () => {
		const standIn = await portal({ plan: 'standard' });
		await statuses(standIn, 50);
		standIn.faults.next({ kind: 'html', status: 502 });
		standIn.onRequest(() => Promise.reject(new Error('not called')));
		expect(await statuses(standIn, 1)).toEqual([503]);
		expect(standIn.faults.pending).toBe(1);
	});
});

describe('the limit of operating time', () => {
	const options = { operatingSecondsPerCall: { 'crm.item.list': 200, '*': 1 }, operatingLimitSeconds: 480 };

	it('blocks one method, for as long as its baskets are not free [DOC] [REC]', async () => {
		const clock = new Clock();
		const start = Math.floor(clock.now / 1000);
		const standIn = await portal({ ...options, clock: clock.read });
		const spent: number[] = [];
		for (let index = 0; index < 3; index++) {
			const { time } = (await itemList(standIn)).body;
			expect(time.operating_reset_at).toBe(start + 600);
			spent.push(time.operating);
			clock.passSeconds(100);
		}
		expect(spent).toEqual([200, 400, 600]);
		expect(await itemList(standIn)).toMatchObject({
			status: 429,
			body: {
				error: 'OPERATION_TIME_LIMIT',
				error_description: 'Method is blocked due to operation time limit.',
			},
		});
		expect((await call(standIn, 'crm.contact.list')).status).toBe(200);
		expect(standIn.blockedOperations).toBe(1);

		clock.passSeconds(299);
		expect((await itemList(standIn)).status).toBe(429);
		clock.passSeconds(1);
		const { body } = await itemList(standIn);
		expect(body.time).toMatchObject({ operating: 600, operating_reset_at: start + 700 });
		expect((await itemList(standIn)).status).toBe(429);
	});

	it('also applies inside a batch, with status 200 [FIELD]', async () => {
		const standIn = await portal({ ...options, operatingSecondsPerCall: { 'crm.item.get': 300 } });
		standIn.add({ id: 1 });
		const get = 'crm.item.get?entityTypeId=3&id=1';
		const { status, body } = await call<BatchResult>(standIn, 'batch', {
			cmd: { a: get, b: get, c: get, d: 'profile' },
		});
		expect(status).toBe(200);
		expect(Object.keys(body.result.result)).toEqual(['a', 'b', 'd']);
		expect(body.result.result_error.c?.error).toBe('OPERATION_TIME_LIMIT');
		expect(body.result.result_time.b?.operating).toBe(600);
	});
});
