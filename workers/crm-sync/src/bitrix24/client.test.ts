import { getEventListeners, once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { createCrmClient, policies } from './client.js';
import { createCrm } from './crm.js';

const begin = Date.UTC(2026, 0, 2);

/** A client of a CRM that always responds with this body. Its clock moves only while it waits, or when it is set. */
async function startClient(body: object, signal = new AbortController().signal) {
	let requests = 0;
	const userAgents = new Set<string | undefined>();
	const server = createServer((request, response) => {
		requests++;
		userAgents.add(request.headers['user-agent']);
		response.end(JSON.stringify(body));
	}).listen(0, '127.0.0.1');
	onTestFinished(() => {
		server.closeAllConnections();
		server.close();
	});
	await once(server, 'listening');
	const waits: number[] = [];
	const clock = {
		time: begin,
		now: () => clock.time,
		async sleep(milliseconds: number) {
			waits.push(milliseconds);
			clock.time += milliseconds;
		},
	};
	const webhookUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/rest/1/secret/`;
	const client = createCrmClient({ webhookUrl, policy: policies.standard, clock, signal });
	return {
		client,
		clock,
		waits,
		requests: () => requests,
		userAgents,
		call: () => client.call('crm.item.list', {}, ({ result }) => result),
	};
}

test.each([
	['one key', { result: { c0: { item: { id: 1 } } }, result_error: [] }, [undefined, 'no_response_in_batch']],
	['every key, in empty maps', { result: [], result_error: [] }, ['no_response_in_batch', 'no_response_in_batch']],
	['both maps', [], ['no_response_in_batch', 'no_response_in_batch']],
])(
	'a batch whose response lacks %s is tried again, and never says that a contact does not exist',
	async (_, result, codes) => {
		const { client, requests } = await startClient({ result, time: {} });
		const commands = [1, 2].map((id) => ({ method: 'crm.item.get', params: { id } }));
		const outcomes = await client.batch(commands, { waits: true });
		expect(outcomes.map((outcome) => (outcome instanceof Error ? outcome.code : undefined))).toEqual(codes);
		expect(requests()).toBe(6);
		const crm = createCrm(client, { trouble: undefined, reason: undefined });
		for await (const { deleted, unread } of crm.lookUp([1, 2], { waits: true })) {
			expect(deleted).toEqual([]);
			expect(unread.get(2)).toBe('no_response_in_batch');
		}
	},
);

test('every request names this product and its version, so that an administrator of the CRM knows who calls', async () => {
	const { client, call, userAgents } = await startClient({ result: [] });
	await call();
	await client.batch([{ method: 'crm.item.get', params: { id: 1 } }], { waits: true });
	expect([...userAgents]).toEqual([expect.stringMatching(/^contacts\/\d+\.\d+\.\d+$/)]);
});

test('a clock that is set back by a day delays no request by more than one token', async () => {
	const { call, clock, waits } = await startClient({ result: [] });
	await call();
	clock.time = begin - 86_400_000;
	await call();
	await call();
	// 526.3 ms: what is rounded up once is waited for less the next time.
	for (const wait of waits) expect(wait).toBeLessThanOrEqual(527);
});

test('requests leave nothing in an abort signal that lives as long as the process', async () => {
	const { signal } = new AbortController();
	const { call } = await startClient({ result: [] }, signal);
	/** Its listeners, and the entries that Node.js itself keeps in it, for instance for `AbortSignal.any`. */
	const entries = () =>
		Object.getOwnPropertySymbols(signal)
			.map((key) => Reflect.get(signal, key) as { size?: number } | undefined)
			.reduce((sum, value) => sum + (value?.size ?? 0), 0) + getEventListeners(signal, 'abort').length;
	await call();
	const before = entries();
	for (let calls = 0; calls < 20; calls++) await call();
	expect(entries()).toBe(before);
});
