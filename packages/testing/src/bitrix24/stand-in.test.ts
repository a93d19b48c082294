import { expect, onTestFinished, test } from 'vitest';
import { type StandIn, startStandIn } from './stand-in.js';

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
