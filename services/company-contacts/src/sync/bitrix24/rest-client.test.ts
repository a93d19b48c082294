import { getEventListeners } from 'node:events';
import { type StandIn, startStandIn } from '@contacts/bitrix24-stand-in';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../clock.js';
import { createRestClient, policies } from './rest-client.js';

let standIn: StandIn;

beforeEach(async () => {
	standIn = await startStandIn({ plan: 'unlimited' });
	standIn.add({ id: 1 });
});
afterEach(() => standIn.close());

const clientOf = (signal?: AbortSignal) => {
	let time = 0;
	// Each request comes a second after the last, so that none waits for a token.
	const clock = { now: () => (time += 1000), sleep: systemClock.sleep };
	const webhookUrl = standIn.webhookUrl;
	return createRestClient({ webhookUrl, policy: policies.enterprise, clock, ...(signal ? { signal } : {}) });
};

/** What a signal remembers: its listeners, and the signals that follow it. */
function entriesOf(signal: AbortSignal): number {
	const collections = Object.getOwnPropertySymbols(signal).map((symbol) => Reflect.get(signal, symbol)?.size ?? 0);
	return getEventListeners(signal, 'abort').length + collections.reduce((sum, size) => sum + size, 0);
}

test('a signal that lives as long as the process remembers no request that is over', async () => {
	const { signal } = new AbortController();
	const client = clientOf(signal);
	for (let n = 0; n < 40; n++) await client.call('profile', {}, () => undefined);
	standIn.faults.next({ kind: 'error', code: 'INVALID_CREDENTIALS' });
	await expect(client.call('profile', {}, () => undefined)).rejects.toThrow('INVALID_CREDENTIALS');
	expect(standIn.requests).toHaveLength(41);
	expect(entriesOf(signal)).toBe(0);
});

test('a signal ends the request that is under way', async () => {
	const stop = new AbortController();
	standIn.faults.always({ kind: 'hang' });
	standIn.onRequest(() => stop.abort());
	await expect(clientOf(stop.signal).call('profile', {}, () => undefined)).rejects.toMatchObject({
		name: 'AbortError',
	});
	expect(entriesOf(stop.signal)).toBe(0);
});

test.each([
	['SOMETHING_NEW', 'SOMETHING_NEW'],
	['100', '100'],
	['a.b-c_D', 'a.b-c_D'],
	['x'.repeat(64), 'x'.repeat(64)],
	['x'.repeat(65), 'unknown_code'],
	['x'.repeat(1_000_000), 'unknown_code'],
	['\u001b[31mred', 'unknown_code'],
	['\u009b31mred', 'unknown_code'],
	['a\u202eb', 'unknown_code'],
	['two words', 'unknown_code'],
	['Ошибка', 'unknown_code'],
	['CODE\n', 'unknown_code'],
])('an error code is a short word, or a fixed one stands for it: %#', async (code, expected) => {
	standIn.faults.next({ kind: 'error', code, status: 400 });
	const failure = await clientOf()
		.call('crm.item.list', {}, () => undefined)
		.catch((error: Error) => error);
	expect(failure).toMatchObject({ code: expected, message: `crm.item.list: ${expected}` });

	standIn.faults.next({ kind: 'error', code }, { method: 'crm.item.get', inBatch: true });
	const [single] = await clientOf().batch([{ method: 'crm.item.get', params: { entityTypeId: 3, id: 1 } }]);
	expect(single).toMatchObject({ code: expected });
});

test.each([
	['https://moved.example.test/rest/1/s/', 'portal_moved_to_moved.example.test'],
	['https://moved.example.test:8443/rest/1/s/', 'portal_moved_to_moved.example.test'],
	[`https://${'x'.repeat(60)}.example.test`, 'portal_moved_to_an_unknown_host'],
	['nowhere', 'portal_moved_to_an_unknown_host'],
])('the host that a portal has moved to is part of a code: %s', async (to, expected) => {
	standIn.faults.next({ kind: 'redirect', to });
	await expect(clientOf().call('profile', {}, () => undefined)).rejects.toMatchObject({ code: expected });
});
