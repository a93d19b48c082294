import { getEventListeners, once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openPortal } from './portal.js';
import { createRestClient, policies } from './rest-client.js';

const begin = Date.UTC(2026, 0, 2);
const { standard, enterprise } = policies;

/** What the portal responds: a status and a body, or a function of the number of the request. */
type Reply = (request: number) => { status?: number; body: Iterable<string | Buffer> };
const json = (body: object, status = 200) => ({ status, body: JSON.stringify(body) });

/** A client of a portal with this reply. Its clock moves only while it waits, or when it is set. */
async function startClient(reply: Reply, options: { arrival?: number; signal?: AbortSignal } = {}) {
	let requests = 0;
	const server = createServer((_, response) => {
		const { status = 200, body } = reply(++requests);
		response.writeHead(status, { 'content-type': 'application/json' });
		// The client closes the connection of a response that is too large.
		pipeline(Readable.from(body), response).catch(() => undefined);
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
	const client = createRestClient({ webhookUrl, policy: standard, clock, ...options });
	return {
		client,
		clock,
		waits,
		requests: () => requests,
		call: () => client.call('crm.item.list', {}, ({ result }) => result),
	};
}

describe('a response', () => {
	function* endless(): Generator<Buffer> {
		for (let pieces = 0; pieces < 1000; pieces++) yield Buffer.alloc(1024 * 1024, 0x20);
	}
	const arrays = (levels: number) =>
		`{"result":${'['.repeat(levels - 1)}"\\"[${'[{'.repeat(50)}"${']'.repeat(levels - 1)}}`;
	const numbers = (count: number) => JSON.stringify({ result: Array.from({ length: count }, () => 0) });

	test.each<[string, () => Iterable<string | Buffer>, string]>([
		['that does not end', endless, 'response_too_large'],
		['with 33 levels', () => arrays(33), 'response_too_complex'],
		['with more than 250,000 values', () => numbers(250_000), 'response_too_complex'],
	])('%s is an error', async (_, body, code) => {
		const { call } = await startClient(() => ({ body: body() }));
		await expect(call()).rejects.toMatchObject({ kind: 'retry', code });
	});

	test('may have 8 MiB, 32 levels besides brackets in texts, and almost 250,000 values', async () => {
		for (const body of [arrays(32), numbers(249_999), JSON.stringify({ result: [1] }).padEnd(8 * 1024 * 1024, ' ')]) {
			const { call } = await startClient(() => ({ body }));
			expect(await call()).toEqual(JSON.parse(body).result);
		}
	});
});

describe('a method that has used up its operating time', () => {
	test('is tried again after half a minute, whatever the portal’s clock says', async () => {
		const time = { operating_reset_at: begin / 1000 + 365 * 86_400 };
		const { call } = await startClient(() => json({ error: 'OPERATION_TIME_LIMIT', time }, 429));
		await expect(call()).rejects.toMatchObject({ kind: 'pause', until: begin + 30_000 });
	});

	test('is not called until the time that its last success stated, by the portal’s clock', async () => {
		const [portalAhead, resetInMs] = [3_600_000, 480_000];
		const time = {
			date_start: new Date(begin + portalAhead).toISOString(),
			operating_reset_at: (begin + portalAhead + resetInMs) / 1000,
		};
		const { call, clock, requests } = await startClient((request) =>
			request === 1 ? json({ result: [], time }) : json({ error: 'OPERATION_TIME_LIMIT' }, 429),
		);
		await call();
		clock.time = begin + 60_000;
		const until = begin + resetInMs + 1000;
		await expect(call()).rejects.toMatchObject({ kind: 'pause', until });
		clock.time = until - 1;
		await expect(call()).rejects.toMatchObject({ kind: 'pause', until });
		expect(requests()).toBe(2);
		// Only the oldest part may be free by then, so the method is tried every half minute from then on.
		clock.time = until;
		await expect(call()).rejects.toMatchObject({ kind: 'pause', until: until + 30_000 });
		expect(requests()).toBe(3);
	});
});

test.each([
	['one key', { result: { c0: { item: { id: 1 } } }, result_error: [] }, [undefined, 'no_response_in_batch']],
	['every key, in empty maps', { result: [], result_error: [] }, ['no_response_in_batch', 'no_response_in_batch']],
	['both maps', [], ['no_response_in_batch', 'no_response_in_batch']],
])(
	'a batch whose response lacks %s is tried again, and never says that a contact does not exist',
	async (_, result, codes) => {
		const { client, requests } = await startClient(() => json({ result, time: {} }));
		const outcomes = await client.batch([1, 2].map((id) => ({ method: 'crm.item.get', params: { id } })));
		expect(outcomes.map((outcome) => (outcome instanceof Error ? outcome.code : undefined))).toEqual(codes);
		expect(requests()).toBe(3);
		const { lookUp } = await openPortal(client, { trouble: undefined, reason: undefined });
		for await (const { deleted, unclear } of lookUp([1, 2])) {
			expect(deleted).toEqual([]);
			expect(unclear.get(2)).toBe('no_response_in_batch');
		}
	},
);

describe('no request waits longer than for the next token of an empty bucket', () => {
	const reply = () => json({ result: [] });
	// 526.3 ms: what is rounded up once is waited for less the next time.
	const nextToken = Math.ceil(1000 / standard.perSecond);
	const untilFull = (standard.burst * 1000) / standard.perSecond;

	test('after the clock was set back by a day', async () => {
		const { client, call, clock, waits } = await startClient(reply);
		await call();
		clock.time = begin - 86_400_000;
		await call();
		await call();
		expect(waits).toEqual([nextToken, nextToken - 1]);
		expect(client.arrival).toBeLessThanOrEqual(begin - 86_400_000 + 2 * nextToken + untilFull);
	});

	test('with an arrival that was saved under the larger bucket of another plan', async () => {
		const arrival = begin + (enterprise.burst * 1000) / enterprise.perSecond;
		const { call, waits } = await startClient(reply, { arrival });
		await call();
		await call();
		expect(waits).toEqual([nextToken, nextToken - 1]);
	});
});

test('requests leave nothing in an abort signal that lives as long as the process', async () => {
	const { signal } = new AbortController();
	const { call } = await startClient(() => json({ result: [] }), { signal });
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
