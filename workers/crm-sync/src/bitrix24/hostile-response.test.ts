import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { openPortal } from './portal.js';
import { createRestClient, policies } from './rest-client.js';
import { post } from './transport.js';

/** The URL of a webhook whose portal responds like this. */
async function portal(respond: RequestListener): Promise<string> {
	const server = createServer(respond).listen(0, '127.0.0.1');
	onTestFinished(() => {
		server.closeAllConnections();
		server.close();
	});
	await once(server, 'listening');
	return `http://127.0.0.1:${(server.address() as AddressInfo).port}/rest/1/secret/`;
}

test('an endless response is cut off and is an error', async () => {
	const url = await portal((_, response) => {
		const piece = Buffer.alloc(1024 * 1024, 0x20);
		const more = () => {
			while (response.write(piece));
		};
		response.on('drain', more);
		more();
	});
	await expect(post(url, 'crm.item.list', {}, 60_000)).rejects.toMatchObject({
		kind: 'retry',
		code: 'response_too_large',
	});
});

const bodyOf = async (body: string) =>
	post(await portal((_, response) => response.end(body)), 'crm.item.list', {}, 60_000);
const refusal = (code: string) => ({ kind: 'retry', code });

test('a response may have 8 MiB, and one byte more is an error', async () => {
	const body = JSON.stringify({ result: [1] }).padEnd(8 * 1024 * 1024, ' ');
	expect((await bodyOf(body)).result).toEqual([1]);
	await expect(bodyOf(`${body} `)).rejects.toMatchObject(refusal('response_too_large'));
});

test('a response may have 32 levels, and one more is an error, but brackets in texts are no levels', async () => {
	const arrays = (levels: number, text = '') =>
		`{"result":${'['.repeat(levels - 1)}${JSON.stringify(text)}${']'.repeat(levels - 1)}}`;
	const text = `${'[{'.repeat(50)}"\\"[\\[`;
	expect(((await bodyOf(arrays(32, text))).result as unknown[]).flat(40)).toEqual([text]);
	await expect(bodyOf(arrays(33))).rejects.toMatchObject(refusal('response_too_complex'));
});

test('a response with more than 250,000 values is an error', async () => {
	const numbers = (count: number) => JSON.stringify({ result: Array.from({ length: count }, () => 0) });
	expect((await bodyOf(numbers(249_999))).result).toHaveLength(249_999);
	await expect(bodyOf(numbers(250_000))).rejects.toMatchObject(refusal('response_too_complex'));
});

test('a method that has used up its operating time is tried again after half a minute, whatever the portal’s clock says', async () => {
	const begun = Date.UTC(2026, 0, 2);
	const url = await portal((_, response) => {
		response.writeHead(429, { 'content-type': 'application/json' });
		response.end(
			JSON.stringify({ error: 'OPERATION_TIME_LIMIT', time: { operating_reset_at: begun / 1000 + 365 * 86_400 } }),
		);
	});
	const clock = { now: () => begun, sleep: async () => undefined };
	const client = createRestClient({ webhookUrl: url, policy: policies.standard, clock });
	await expect(client.call('crm.item.list', {}, () => undefined)).rejects.toMatchObject({
		kind: 'pause',
		until: begun + 30_000,
	});
});

test('a method that has used up its operating time is not called until the time that its last success stated, by the portal’s clock', async () => {
	const begun = Date.UTC(2026, 0, 2);
	const [portalAhead, resetInMs] = [3_600_000, 480_000];
	const time = {
		date_start: new Date(begun + portalAhead).toISOString(),
		operating_reset_at: (begun + portalAhead + resetInMs) / 1000,
	};
	let requests = 0;
	const url = await portal((_, response) => {
		requests++;
		response.writeHead(requests === 1 ? 200 : 429, { 'content-type': 'application/json' });
		response.end(JSON.stringify(requests === 1 ? { result: [], time } : { error: 'OPERATION_TIME_LIMIT' }));
	});
	let now = begun;
	const clock = { now: () => now, sleep: async () => undefined };
	const client = createRestClient({ webhookUrl: url, policy: policies.standard, clock });
	const call = () => client.call('crm.item.list', {}, () => undefined);
	await call();
	now += 60_000;
	const until = begun + resetInMs + 1000;
	await expect(call()).rejects.toMatchObject({ kind: 'pause', until });
	now = until - 1;
	await expect(call()).rejects.toMatchObject({ kind: 'pause', until });
	expect(requests).toBe(2);
	// Only the oldest part may be free by then, so the method is tried every half minute from then on.
	now = until;
	await expect(call()).rejects.toMatchObject({ kind: 'pause', until: until + 30_000 });
	expect(requests).toBe(3);
});

test.each([
	['one key', { result: { c0: { item: { id: 1 } } }, result_error: [] }, [undefined, 'no_response_in_batch']],
	['every key, in empty maps', { result: [], result_error: [] }, ['no_response_in_batch', 'no_response_in_batch']],
	['both maps', [], ['no_response_in_batch', 'no_response_in_batch']],
])(
	'a batch whose response lacks %s is tried again, and never says that a contact does not exist',
	async (_, result, codes) => {
		let requests = 0;
		const url = await portal((request, response) => {
			request.resume();
			requests++;
			response.writeHead(200, { 'content-type': 'application/json' });
			response.end(JSON.stringify({ result, time: {} }));
		});
		const clock = { now: () => 0, sleep: async () => undefined };
		const client = createRestClient({ webhookUrl: url, policy: policies.standard, clock });
		const outcomes = await client.batch([1, 2].map((id) => ({ method: 'crm.item.get', params: { id } })));
		expect(outcomes.map((outcome) => (outcome instanceof Error ? outcome.code : undefined))).toEqual(codes);
		expect(requests).toBe(3);

		const { lookUp } = await openPortal(client, { trouble: undefined, reason: undefined });
		for await (const { deleted, unclear } of lookUp([1, 2])) {
			expect(deleted).toEqual([]);
			expect(unclear.get(2)).toBe('no_response_in_batch');
		}
	},
);
