import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createRestClient, policies } from './rest-client.js';

const { standard, enterprise } = policies;
/** Milliseconds until the next token of an empty bucket in the plan `standard`, rounded up. */
const nextToken = Math.ceil(1000 / standard.perSecond);
/** Milliseconds until such a bucket is full again. */
const untilFull = (standard.burst * 1000) / standard.perSecond;

let standIn: StandIn;
beforeAll(async () => {
	standIn = await startStandIn();
});
afterAll(async () => {
	await standIn?.close();
});

/** A client whose clock moves only while it waits, or when it is set. */
function startClient(arrival: number, begin: number) {
	let time = begin;
	const waits: number[] = [];
	const clock = {
		now: () => time,
		async sleep(milliseconds: number) {
			waits.push(milliseconds);
			time += milliseconds;
		},
	};
	const client = createRestClient({ webhookUrl: standIn.webhookUrl, policy: standard, clock, arrival });
	return {
		client,
		waits,
		call: () => client.call('crm.item.fields', { entityTypeId: 3 }, ({ result }) => typeof result),
		setClock(milliseconds: number) {
			time = milliseconds;
		},
	};
}

describe('no request waits longer than for the next token of an empty bucket', () => {
	const begin = Date.UTC(2026, 0, 2);

	test('after the clock was set back by a day', async () => {
		const { client, call, waits, setClock } = startClient(0, begin);
		await call();
		setClock(begin - 86_400_000);
		await call();
		await call();
		expect(waits).toHaveLength(2);
		expect(Math.max(...waits)).toBe(nextToken);
		expect(client.arrival).toBeLessThanOrEqual(begin - 86_400_000 + 2 * nextToken + untilFull);
	});

	test('with an arrival that was saved under the larger bucket of another plan', async () => {
		const { call, waits } = startClient(begin + (enterprise.burst * 1000) / enterprise.perSecond, begin);
		await call();
		await call();
		expect(waits).toHaveLength(2);
		expect(Math.max(...waits)).toBe(nextToken);
	});
});
