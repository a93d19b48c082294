import { inspect } from 'node:util';
import { expect, test, vi } from 'vitest';
import {
	type ClientOptions,
	ContactsConnectionError,
	ContactsError,
	createCompanyContactsClient,
	createPersonalContactsClient,
} from './index.js';
import { closedServer, failureOf, key, list, problem, type Scripted, startServer } from './testing/scripted-server.js';

test('the client sends its credentials in the query, and never prints them', async () => {
	const { asked, company, options } = await startServer(list(['Alice']));
	expect((await company.list({ companyId: 11n })).contacts).toEqual([{ id: 1, name: 'Alice' }]);
	expect(Object.fromEntries(asked[0]?.url.searchParams ?? [])).toEqual({
		company_id: '11',
		project: 'partner',
		api_key: key,
	});
	await createCompanyContactsClient({ ...options, baseUrl: `${options.baseUrl}/under/` }).list();
	expect(asked[1]?.url.pathname).toBe('/under/api/company_contacts.list');
	expect(inspect(company, { depth: 20, showHidden: true })).not.toContain('canary');
});

test('a 429, a 503 and a 500 with Retry-After are retried after that time', async () => {
	const saved = { status: 200, headers: { 'content-type': 'application/json' }, body: '{"ok":"saved"}' };
	const { asked, personal } = await startServer(
		problem(429, 'rate_limited', { 'retry-after': '1' }),
		problem(503, 'overloaded', { 'retry-after': '0' }),
		problem(500, 'database_error', { 'retry-after': '0' }),
		saved,
	);
	expect(await personal.upsert({ chat_id: 7, name: null })).toBe('saved');
	const sent = { method: 'POST', body: '{"chat_id":7,"name":null}' };
	expect(asked).toMatchObject([sent, sent, sent, sent]);
	expect(Number(asked[1]?.at) - Number(asked[0]?.at)).toBeGreaterThanOrEqual(990);
});

test.each([
	[500, 'internal_error'],
	[401, 'unauthorized'],
	[400, 'invalid_query'],
])('a %i that a retry would not resolve fails at once', async (status, code) => {
	const { asked, company } = await startServer(problem(status, code));
	const error = await failureOf(company.list());
	expect(error).toBeInstanceOf(ContactsError);
	expect(error).toMatchObject({ status, code, requestId: 'id', errors: [], retryAfter: undefined });
	expect(error.message).toBe(`${status} ${code}: Fixed text. (request id)`);
	expect(asked).toHaveLength(1);
});

test('a call makes a bounded number of attempts', async () => {
	const { asked, options } = await startServer(problem(503, 'overloaded', { 'retry-after': '0' }));
	const error = await failureOf(createCompanyContactsClient({ ...options, attempts: 3 }).list());
	expect([error.code, asked.length]).toEqual(['overloaded', 3]);
});

test.each(['3600', '9'.repeat(400)])(
	'a call fails at once when the wait would exceed its timeout: Retry-After: %s',
	async (value) => {
		const { asked, company } = await startServer(problem(429, 'rate_limited', { 'retry-after': value }));
		expect(await failureOf(company.list())).toMatchObject({ code: 'rate_limited', retryAfter: Number(value) });
		expect(asked).toHaveLength(1);
	},
);

test('the time until a Retry-After date is counted by the clock of the server', async () => {
	const [now, later] = [3_600_000, 3_660_000].map((ahead) => new Date(Date.now() + ahead).toUTCString());
	const { company } = await startServer(
		problem(503, 'overloaded', { date: String(now), 'retry-after': String(later) }),
	);
	expect(await failureOf(company.list())).toMatchObject({ retryAfter: 60 });
});

test.each(['0', 'Wed, 21 Oct 2015 07:28:00 GMT', '-1', 'soon'])(
	'a second attempt is not made at once although the response has Retry-After: %s',
	async (value) => {
		const { asked, options } = await startServer(problem(503, 'overloaded', { 'retry-after': value }));
		await failureOf(createCompanyContactsClient({ ...options, attempts: 2 }).list());
		expect(Number(asked[1]?.at) - Number(asked[0]?.at)).toBeGreaterThanOrEqual(240);
	},
);

test('an abort ends a call, also during a wait', async () => {
	const reason = new Error('no longer needed');
	const giveUp = new AbortController();
	const { status, headers, body } = problem(429, 'rate_limited', { 'retry-after': '20' });
	const { asked, company } = await startServer((_, response) => {
		response.writeHead(status, headers).end(body, () => setTimeout(() => giveUp.abort(reason), 50));
	});
	const call = company.list({ signal: giveUp.signal });
	await expect(call).rejects.toBe(reason);
	// Not at the end of the wait.
	expect(asked).toHaveLength(1);
});

test('an abort during a request ends a call with its reason', async () => {
	const giveUp = new AbortController();
	const { company } = await startServer(() => giveUp.abort('left'));
	await expect(company.list({ signal: giveUp.signal })).rejects.toBe('left');
});

test('a fetch that rejects with a value that is no error is retried', async () => {
	const { options } = await startServer(list([]));
	let calls = 0;
	const company = createCompanyContactsClient({
		...options,
		fetch: (url, init) => (++calls === 1 ? Promise.reject('unreachable') : fetch(url, init)),
	});
	expect((await company.list()).contacts).toEqual([]);
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
		list([]),
	);
	expect(await company.list()).toEqual({ contacts: [], syncedAt: undefined });
	expect(asked).toHaveLength(3);
});

test('an unreachable service fails with ContactsConnectionError', async () => {
	const { port } = await closedServer();
	const options = { baseUrl: `http://127.0.0.1:${port}`, project: 'partner', apiKey: key, attempts: 2 };
	expect(await failureOf(createCompanyContactsClient(options).list())).toMatchObject({ reason: 'ECONNREFUSED' });
});

test.each<[string, Scripted]>([
	['a redirection, which is not followed', { status: 302, headers: { location: '/elsewhere' } }],
	['a page of some proxy', { status: 200, headers: { 'content-type': 'text/html' }, body: `<p>${key}</p>` }],
	['an error page', { status: 403, headers: { 'content-type': 'text/html' }, body: `<p>${key}</p>` }],
	['half a response', { status: 200, headers: { 'content-type': 'application/json' }, body: `{"${key}` }],
	['an empty response', { status: 200, headers: { 'content-type': 'application/json' } }],
])('a response that did not come from the service fails with unexpected_response: %s', async (_, step) => {
	const { asked, company } = await startServer(step);
	expect(await failureOf(company.list())).toMatchObject({ code: 'unexpected_response', status: step.status });
	expect(asked).toHaveLength(1);
});

test.each(['{}', 'null', '{"ok":true}'])(
	'a 200 with JSON that did not come from the service is no success: %s',
	async (body) => {
		const step = { status: 200, headers: { 'content-type': 'application/json' }, body };
		const { asked, company, personal } = await startServer(step);
		const apply = vi.fn();
		for (const call of [
			() => personal.upsert({ chat_id: 1 }),
			() => personal.setDirectSubscription({ chat_id: 1, active: true }),
			() => company.list(),
			() => company.changes().next(),
			() => company.keepCopy({ readCursor: () => 'stored', apply }),
		]) {
			expect(await failureOf(call())).toMatchObject({ code: 'unexpected_response', status: 200 });
		}
		expect([asked.length, apply.mock.calls]).toEqual([5, []]);
	},
);

test('an error names the invalid fields', async () => {
	const errors = [{ field: 'birth_date', message: 'must be a real calendar date, YYYY-MM-DD' }];
	const { body, ...rest } = problem(400, 'invalid_body');
	const detail = 'birth_date must be a real calendar date, YYYY-MM-DD.';
	const { personal } = await startServer({ ...rest, body: JSON.stringify({ ...JSON.parse(body), detail, errors }) });
	const error = await failureOf(personal.upsert({ chat_id: 1, birth_date: 'x' }));
	expect(error.errors).toEqual(errors);
	expect(error.message).toContain('birth_date must be a real calendar date');
});

test.each<[string, Partial<ClientOptions>]>([
	['baseUrl', { baseUrl: `not an address ${key}` }],
	['baseUrl', { baseUrl: `http://host/?api_key=${key}` }],
	['project', { project: '' }],
	['apiKey', { apiKey: '' }],
	['attempts', { attempts: 0 }],
	['timeout', { timeout: 0 }],
	['timeout', { timeout: 2 ** 31 }],
])('invalid options are rejected: %s', async (name, options) => {
	const create = async () =>
		createCompanyContactsClient({ baseUrl: 'http://127.0.0.1:1', project: 'partner', apiKey: key, ...options });
	const error = await failureOf(create());
	expect(error).toBeInstanceOf(TypeError);
	expect(error.message).toMatch(new RegExp(`^${name} must be`));
});
