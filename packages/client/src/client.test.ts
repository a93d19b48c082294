import { inspect } from 'node:util';
import { expect, onTestFinished, test, vi } from 'vitest';
import {
	type ClientOptions,
	ContactsConnectionError,
	ContactsError,
	createCompanyContactsClient,
	createPersonalContactsClient,
} from './index.js';
import { failureOf, json, key, problem, type Scripted, startServer } from './testing/scripted-server.js';

const empty = json({ count: 0, data: [] });

test('the client sends its credentials in the query, and never prints them', async () => {
	const { asked, company, options } = await startServer(json({ count: 1, data: [{ id: 1, name: 'Alice' }] }));
	expect((await company.list({ companyId: 11n })).contacts).toEqual([{ id: 1, name: 'Alice' }]);
	const sent = { company_id: '11', project: 'partner', api_key: key };
	expect(Object.fromEntries(asked[0]?.url.searchParams ?? [])).toEqual(sent);
	await createCompanyContactsClient({ ...options, baseUrl: `${options.baseUrl}/under/` }).list();
	expect(asked[1]?.url.pathname).toBe('/under/api/company_contacts.list');
	expect(inspect(company, { depth: 20, showHidden: true })).not.toContain('canary');
});

test('a 429, a 503 and a 500 with Retry-After are retried after that time, and never at once', async () => {
	const { asked, personal } = await startServer(
		problem(429, 'rate_limited', { 'retry-after': '1' }),
		problem(503, 'overloaded', { 'retry-after': '0' }),
		problem(500, 'database_error', { 'retry-after': '0' }),
		json({ ok: 'saved' }),
	);
	expect(await personal.upsert({ chat_id: 7, name: null })).toBe('saved');
	expect(asked.map(({ body }) => body)).toEqual(Array(4).fill('{"chat_id":7,"name":null}'));
	const waits = asked.slice(1).map(({ at }, index) => at - Number(asked[index]?.at));
	expect(waits[0]).toBeGreaterThanOrEqual(990);
	expect(Math.min(...waits)).toBeGreaterThanOrEqual(240);
});

test.each([
	[500, 'internal_error'],
	[401, 'unauthorized'],
	[400, 'invalid_query'],
])('a %i that a retry would not resolve fails at once, with the invalid fields', async (status, code) => {
	const errors = [{ field: 'limit', message: 'must be an integer' }];
	const { asked, company } = await startServer(problem(status, code, {}, { errors }));
	const error = await failureOf(company.list());
	expect(error).toBeInstanceOf(ContactsError);
	expect(error).toMatchObject({ status, code, requestId: 'id', errors, retryAfter: undefined });
	expect(error.message).toBe(`${status} ${code}: Fixed text. (request id)`);
	expect(asked).toHaveLength(1);
});

test('a call makes a bounded number of attempts', async () => {
	const { asked, options } = await startServer(problem(503, 'overloaded'));
	const error = await failureOf(createCompanyContactsClient({ ...options, attempts: 2 }).list());
	expect([error.code, asked.length]).toEqual(['overloaded', 2]);
});

test('a call fails at once when the wait would exceed its timeout', async () => {
	const { asked, company } = await startServer(problem(429, 'rate_limited', { 'retry-after': '3600' }));
	expect(await failureOf(company.list())).toMatchObject({ code: 'rate_limited', retryAfter: 3600 });
	expect(asked).toHaveLength(1);
});

test('an abort ends a call with its reason, during a request and during a wait', async () => {
	const waiting = new AbortController();
	const { status, headers, body } = problem(429, 'rate_limited', { 'retry-after': '20' });
	const refusing = await startServer((_, response) => {
		response.writeHead(status, headers).end(body, () => setTimeout(() => waiting.abort('no longer needed'), 50));
	});
	await expect(refusing.company.list({ signal: waiting.signal })).rejects.toBe('no longer needed');
	// Not at the end of the wait.
	expect(refusing.asked).toHaveLength(1);

	const asking = new AbortController();
	const silent = await startServer(() => asking.abort('left'));
	await expect(silent.company.list({ signal: asking.signal })).rejects.toBe('left');
});

test('a call times out when the service does not respond', async () => {
	const { options } = await startServer(() => undefined);
	const error = await failureOf(createPersonalContactsClient({ ...options, timeout: 200 }).upsert({ chat_id: 1 }));
	expect(error).toBeInstanceOf(ContactsConnectionError);
	expect(error.message).toBe(`No response from ${options.baseUrl}: timeout`);
});

test('a call is retried when the connection breaks before or within a response', async () => {
	const { asked, company } = await startServer(
		(request) => request.socket.destroy(),
		(request, response) => {
			response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' });
			response.write('{"count":', () => request.socket.destroy());
		},
		empty,
	);
	expect(await company.list()).toEqual({ contacts: [], syncedAt: undefined });
	expect(asked).toHaveLength(3);
});

const page = (status: number, headers: Record<string, string> = {}): Scripted => ({
	status,
	headers: { 'content-type': 'text/html', ...headers },
	...(status === 204 ? {} : { body: `<p>${key}</p>` }),
});
const otherProblem: Scripted = {
	...page(500, { 'content-type': 'application/problem+json' }),
	body: '{"title":"Oops"}',
};
const statuses = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, index) => first + index);

test.each<[string, Scripted | undefined]>([
	['none', undefined],
	['a redirection, which is not followed', page(302, { location: '/elsewhere' })],
	['200 with a page', page(200)],
	['half a response', { ...empty, body: `{"${key}` }],
	['an empty response', { ...empty, body: '' }],
	['another object', json({ ok: true })],
	['nothing', json(null)],
	['202 with a body of this API', { ...json({ ok: 'saved', count: 0, data: [] }), status: 202 }],
	['a problem of something else', otherProblem],
	['a date in Retry-After', page(503, { 'retry-after': 'Thu, 26 Nov 2026 16:13:32 GMT' })],
	['a fraction in Retry-After', page(503, { 'retry-after': '1.5' })],
	...[204, 408, 425, 429, 499, ...statuses(500, 511), ...statuses(520, 530), 599].map((status): [string, Scripted] => [
		`a page with ${status}`,
		page(status),
	]),
])(
	'a response that is not the service’s own leaves the outcome open, so an upsert is repeated after 6 seconds, and a list soon: %s',
	async (_, step) => {
		vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] });
		onTestFinished(() => void vi.useRealTimers());
		const sent: number[] = [];
		const options: ClientOptions = {
			...{ baseUrl: 'http://127.0.0.1:1', project: 'partner', apiKey: key, attempts: 3 },
			fetch: async () => {
				sent.push(performance.now());
				if (sent.length % 3 === 0 && sent.length <= 6) return new Response('{"ok":"saved","count":0,"data":[]}');
				if (step === undefined) throw new TypeError('fetch failed');
				return new Response(step.body ?? null, { status: step.status, headers: step.headers ?? {} });
			},
		};
		const upsert = () => createPersonalContactsClient(options).upsert({ chat_id: 1 });
		const list = () => createCompanyContactsClient(options).list();
		for (const call of [upsert, list]) {
			const called = call();
			await vi.advanceTimersByTimeAsync(29_000);
			await called;
		}
		const pauses = sent.map((at, index) => at - Number(sent[index - 1]));
		for (const pause of [pauses[1], pauses[2]]) expect(pause).toBeGreaterThanOrEqual(6000);
		for (const pause of [pauses[4], pauses[5]]) expect(pause).toBeLessThan(1000);

		const failed = failureOf(upsert());
		await vi.advanceTimersByTimeAsync(29_000);
		expect(await failed).toMatchObject(
			step === undefined
				? { reason: 'the connection failed' }
				: {
						code: 'unexpected_response',
						status: step.status,
						message: expect.stringContaining('not the service’s own'),
					},
		);
		expect(sent).toHaveLength(9);
	},
);

test('an attempt that gets no response is given up after 6 seconds, a write is repeated 6 seconds later, and a response that has begun is read to its end', async () => {
	vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] });
	onTestFinished(() => void vi.useRealTimers());
	let attempts = 0;
	const { readable, writable } = new TransformStream<Uint8Array>();
	const options: ClientOptions = {
		...{ baseUrl: 'http://127.0.0.1:1', project: 'partner', apiKey: key },
		fetch: (_, { signal }) =>
			++attempts % 2 === 0
				? Promise.resolve(new Response(attempts === 4 ? readable : '{"ok":"saved"}'))
				: new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason))),
	};
	const saved = createPersonalContactsClient(options).upsert({ chat_id: 1 });
	await vi.advanceTimersByTimeAsync(11_900);
	expect(attempts).toBe(1);
	await vi.advanceTimersByTimeAsync(200);
	expect([await saved, attempts]).toEqual(['saved', 2]);
	const list = createCompanyContactsClient(options).list();
	await vi.advanceTimersByTimeAsync(20_000);
	const writer = writable.getWriter();
	await writer.write(new TextEncoder().encode('{"count":0,"data":[]}'));
	await writer.close();
	expect(await list).toMatchObject({ contacts: [] });
});

test('calls leave nothing in an abort signal that lives as long as the process', async () => {
	const { signal } = new AbortController();
	const { company } = await startServer(empty);
	/** Its listeners, and the entries that Node.js itself keeps in it, for instance for `AbortSignal.any`. */
	const entries = () =>
		Object.getOwnPropertySymbols(signal)
			.map((name) => Reflect.get(signal, name) as { size?: number } | undefined)
			.reduce((sum, value) => sum + (value?.size ?? 0), 0);
	await company.list({ signal });
	const before = entries();
	for (let calls = 0; calls < 20; calls++) await company.list({ signal });
	expect(entries()).toBe(before);
});

test('a service that can’t be reached fails with the reason', async () => {
	const options = { baseUrl: 'http://127.0.0.1:1', project: 'partner', apiKey: key, attempts: 1, fetch: unreachable };
	expect(await failureOf(createCompanyContactsClient(options).list())).toMatchObject({ reason: 'ECONNREFUSED' });
});
const unreachable = (url: URL) =>
	Promise.reject(new TypeError(`fetch failed: ${url}`, { cause: { code: 'ECONNREFUSED' } }));

test.each([400, 401, 403, 404, 405, 410, 413, 451])(
	'a refusal by something in between ends the call at once, because it has not passed the request on: %i',
	async (status) => {
		const { asked, company, personal } = await startServer(page(status));
		const apply = vi.fn();
		for (const call of [
			() => personal.upsert({ chat_id: 1 }),
			() => personal.setDirectSubscription({ chat_id: 1, active: true }),
			() => company.list(),
			() => company.changes().next(),
			() => company.keepCopy({ readCursor: () => 'stored', apply }),
		]) {
			expect(await failureOf(call())).toMatchObject({ code: 'unexpected_response', status });
		}
		expect([asked.length, apply.mock.calls]).toEqual([5, []]);
	},
);

test.each<[string, Partial<ClientOptions>]>([
	['baseUrl', { baseUrl: `not an address ${key}` }],
	['baseUrl', { baseUrl: `http://host/?api_key=${key}` }],
	['project', { project: '' }],
	['apiKey', { apiKey: '' }],
	['attempts', { attempts: 0 }],
	['timeout', { timeout: 2 ** 31 }],
])('invalid options are rejected: %s', async (name, options) => {
	const create = async () =>
		createCompanyContactsClient({ baseUrl: 'http://127.0.0.1:1', project: 'partner', apiKey: key, ...options });
	const error = await failureOf(create());
	expect(error).toBeInstanceOf(TypeError);
	expect(error.message).toMatch(new RegExp(`^${name} must be`));
});
