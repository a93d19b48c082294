import { once } from 'node:events';
import { METHODS } from 'node:http';
import { createServer } from 'node:net';
import { setProjectEnabled } from '@contacts/common/auth/projects.sql.js';
import type { Service } from '@contacts/common/process/run.js';
import type { TObject } from '@sinclair/typebox';
import { afterAll, describe, expect } from 'vitest';
import { addProject, type ProblemBody, startTestApp, type TestApp, type TestAppOptions } from './app.js';
import type { Endpoint } from './endpoint.js';
import { expectCommonHeaders, expectProblem, expectRawProblem } from './expect-problem.js';
import { describeStrictQuery } from './strict-query.js';
import { database, test } from './test.js';

const canary = 'canary-key-5f0c_%/+é';
const encodedCanary = encodeURIComponent(canary);

/** Each octet escaped, as some clients do: the most that an encoding can hide it. */
const hiddenCanary = [...Buffer.from(canary)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');

/** What both services promise alike, proved on each of them. */
export function describeSharedContract<V extends TObject>(service: Service<V>, endpoint: Endpoint): void {
	let app: TestApp;
	const good = 'project=good&api_key=good-key';
	const request = (query: string, init: RequestInit = {}, on = app) =>
		on.fetch(`${endpoint.path}${query === '' ? '' : `?${query}`}`, {
			method: endpoint.method,
			...(endpoint.body === undefined ? {} : { body: endpoint.body, headers: { 'content-type': 'application/json' } }),
			...init,
		});
	const withApp = async (options: TestAppOptions, work: (app: TestApp) => Promise<void>) => {
		const other = await startTestApp(service, database.url, options);
		try {
			await work(other);
		} finally {
			await other.close();
		}
	};

	test.beforeAll(async () => {
		const elsewhere = service.name === 'personal-contacts' ? 'company-contacts' : 'personal-contacts';
		await addProject(database.sql, 'good', 'good-key');
		await addProject(database.sql, 'canary', canary);
		await addProject(database.sql, 'percent', '100%');
		await addProject(database.sql, 'other', 'other-key');
		await addProject(database.sql, 'disabled', 'disabled-key');
		await addProject(database.sql, 'elsewhere', 'elsewhere-key', { service: elsewhere });
		await addProject(database.sql, 'here', 'here-key', { service: service.name });
		await addProject(database.sql, 'expiring', 'expiring-key', { expiresAt: new Date(Date.now() + 3_600_000) });
		await addProject(database.sql, 'revoked', 'revoked-key');
		await database.sql`update api_keys set revoked_at = now() where project_id = (select id from projects where code = 'revoked')`;
		await setProjectEnabled(database.sql, 'disabled', false);
		app = await startTestApp(service, database.url);
	});
	afterAll(() => app?.close());

	describe('200', () => {
		test.each([good, 'project=here&api_key=here-key', 'project=good&api%5Fkey=good-key'])('for %s', async (query) => {
			const answer = await request(query);
			expect(answer.status).toBe(200);
			expectCommonHeaders(answer);
		});
	});

	describe('401', () => {
		const wrong: [string, string][] = [
			['nothing', ''],
			['no key', 'project=good'],
			['no project', 'api_key=good-key'],
			['an empty key', 'project=good&api_key='],
			['an empty project', 'project=&api_key=good-key'],
			['a wrong key', 'project=good&api_key=wrong'],
			['an unknown project', 'project=unknown&api_key=good-key'],
			['the key of another project', 'project=good&api_key=other-key'],
			['a key given twice', `${good}&api_key=good-key`],
			['a project given twice', `${good}&project=good`],
			['a key in brackets', 'project=good&api_key[]=good-key'],
			['a disabled project', 'project=disabled&api_key=disabled-key'],
			['a revoked key', 'project=revoked&api_key=revoked-key'],
			['a key for the other service', 'project=elsewhere&api_key=elsewhere-key'],
			['U+0000 in the key', 'project=good&api_key=good-key%00'],
			['U+0000 in the project', 'project=good%00&api_key=good-key'],
			['a key that is not UTF-8', 'project=good&api_key=%FF'],
			['a key that is too long', `project=good&api_key=${'k'.repeat(4000)}`],
		];
		test.each(wrong)('%s', async (_, query) => {
			const answer = await request(query);
			expect(answer.headers.get('www-authenticate')).toBe('ApiKey realm="contacts"');
			await expectProblem(answer, 401, 'unauthorized');
		});

		test('every kind of wrong credentials gets the same bytes, but for the request id', async () => {
			const bodies = await Promise.all(
				wrong.map(async ([, query]) => {
					const answer = await request(query);
					const { request_id: id, ...rest } = (await answer.json()) as ProblemBody;
					expect(id).toBe(answer.headers.get('x-request-id'));
					return JSON.stringify(rest);
				}),
			);
			expect(new Set(bodies).size).toBe(1);
		});

		test('no header counts as credentials', async () => {
			const headers = { authorization: 'Bearer good-key', 'x-api-key': 'good-key', cookie: 'api_key=good-key' };
			await expectProblem(await request('project=good', { headers }), 401, 'unauthorized');
		});

		test('an expired key, though it was live when the keys were loaded', async () => {
			let now = Date.now();
			await withApp({ now: () => now }, async (other) => {
				const query = 'project=expiring&api_key=expiring-key';
				expect((await request(query, {}, other)).status).toBe(200);
				now += 3_600_001;
				await expectProblem(await request(query, {}, other), 401, 'unauthorized');
			});
		});

		test('comes before any look at other parameters, the media type or the body', async () => {
			const init = endpoint.method === 'POST' ? { body: '{"broken', headers: { 'content-type': 'text/plain' } } : {};
			await expectProblem(await request('project=good&api_key=wrong&company_id=abc', init), 401, 'unauthorized');
		});
	});

	describe('404', () => {
		test.each(['/api', '/api/unknown', `${endpoint.path}/`, `${endpoint.path}x`, endpoint.path.toUpperCase(), '//'])(
			'%s',
			async (path) => {
				await expectProblem(await app.fetch(`${path}?${good}`), 404, 'not_found');
			},
		);

		test('a body of any media type does not turn it into another answer', async () => {
			const answer = await app.fetch('/unknown', {
				method: 'POST',
				body: 'x',
				headers: { 'content-type': 'text/plain' },
			});
			await expectProblem(answer, 404, 'not_found');
		});
	});

	describe('405', () => {
		// CONNECT is no request to a path, but asks for a tunnel.
		const others = METHODS.filter((method) => method !== endpoint.method && method !== 'CONNECT');

		test.each(others)('%s, with credentials or without', async (method) => {
			for (const query of ['', `?${good}`]) {
				const answer = await app.raw(
					`${method} ${endpoint.path}${query} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx`,
				);
				expect(answer).toMatch(/^HTTP\/1.1 405 Method Not Allowed\r\n/);
				expect(answer).toMatch(new RegExp(`\r\nallow: ${endpoint.method}\r\n`, 'i'));
				expect(answer).toMatch(/\r\ncontent-type: application\/problem\+json\r\n/i);
				if (method !== 'HEAD') expect(answer).toContain('"code":"method_not_allowed"');
			}
		});

		test('for a path that is written with escapes too', async () => {
			const answer = await app.fetch(endpoint.path.replace('_', '%5F'), { method: 'DELETE' });
			await expectProblem(answer, 405, 'method_not_allowed');
		});
	});

	describe('400, 408, 413 and 431 for what is no proper request', () => {
		const close = 'Connection: close\r\n\r\n';
		test.each<[string, string, number, string]>([
			['a bad request line', 'GARBAGE\r\n\r\n', 400, 'invalid_query'],
			['an unknown method', `BREW / HTTP/1.1\r\nHost: a\r\n${close}`, 400, 'invalid_query'],
			['no Host', `GET /health/live HTTP/1.1\r\n${close}`, 400, 'invalid_query'],
			['malformed percent-encoding in the path', `GET /api/%zz HTTP/1.1\r\nHost: a\r\n${close}`, 400, 'invalid_query'],
			[
				'headers that are too large',
				`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n${close}`,
				431,
				'payload_too_large',
			],
			[
				'a URL that is too long',
				`GET /?${'x'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n${close}`,
				431,
				'payload_too_large',
			],
			[
				'two lengths of a body',
				`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n${close}`,
				400,
				'invalid_query',
			],
		])('%s', async (_, bytes, status, code) => {
			expectRawProblem(await app.raw(bytes), status, code);
		});

		test('headers and bodies that come too slowly', async () => {
			await withApp({ limits: { headersTimeout: 100, requestTimeout: 200, checkInterval: 25 } }, async (slow) => {
				expectRawProblem(await slow.raw('GET / HTTP/1.1\r\nHost: a\r\n'), 408, 'invalid_query');
				const body = await slow.raw(
					`POST ${endpoint.path}?${good} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{`,
				);
				if (endpoint.method === 'POST') expectRawProblem(body, 408, 'invalid_query');
			});
		});

		test('an Expect that nobody knows is passed over', async () => {
			const answer = await app.raw(`GET /health/live HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n${close}`);
			expect(answer).toMatch(/^HTTP\/1.1 200 /);
		});
	});

	describeStrictQuery({ app: () => app, endpoint, request, good, percent: 'project=percent' });

	describe('500', () => {
		test('at once when nothing listens where the database was', async () => {
			await withApp({ database: { url: 'postgres://a:b@127.0.0.1:1/none' } }, async (other) => {
				const answer = await request(good, {}, other);
				expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
				await expectProblem(answer, 500, 'database_error');
				await expectProblem(await other.fetch('/health/ready'), 503, 'database_error');
				expect((await other.fetch('/health/live')).status).toBe(200);
			});
		});

		test('within 5 seconds when the database takes connections and says nothing', async () => {
			const silent = createServer((socket) => socket.on('error', () => undefined)).listen(0, '127.0.0.1');
			await once(silent, 'listening');
			const { port } = silent.address() as { port: number };
			await withApp({ database: { url: `postgres://a:b@127.0.0.1:${port}/none` } }, async (other) => {
				const begun = performance.now();
				await expectProblem(await request(good, {}, other), 500, 'database_error');
				expect(performance.now() - begun).toBeLessThan(5000);
			});
			silent.close();
		});

		test('tells nothing of the database: no SQL, no names, no stack, no host', async () => {
			const table = endpoint.table ?? service.name.replace('-', '_');
			await database.sql.unsafe(`alter table ${table} rename to hidden`);
			try {
				const answer = await request(good + (endpoint.fromTable ?? ''));
				const text = await answer.clone().text();
				await expectProblem(answer, 500, 'database_error');
				expect(text).not.toMatch(/hidden|select|insert|relation|42P01|127\.0\.0\.1|at /i);
				expect(app.log.join('')).toContain('42P01');
			} finally {
				await database.sql.unsafe(`alter table hidden rename to ${table}`);
			}
		});

		test('not for a backend that was killed: the statement is sent again', async () => {
			await withApp({ database: { applicationName: 'to be killed', poolSize: 1 } }, async (other) => {
				expect((await request(good, {}, other)).status).toBe(200);
				for (let round = 0; round < 5; round++) {
					await database.sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'to be killed'`;
					expect((await request(good, {}, other)).status).toBe(200);
				}
			});
		});
	});

	test('503 with Retry-After when too many wait for the database', async () => {
		await withApp({ database: { maxWaiting: 0 } }, async (other) => {
			const answer = await request(good, {}, other);
			expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
			await expectProblem(answer, 503, 'overloaded');
		});
	});

	test('a key appears in no answer, log line or metric, however it is encoded', async () => {
		const answers: string[] = [];
		await withApp({}, async (other) => {
			const paths = [endpoint.path, '/unknown', '/api/%zz', '/health/live', '/%00'];
			for (const key of [encodedCanary, hiddenCanary, `${encodedCanary}&api_key=${encodedCanary}`]) {
				for (const name of ['api_key', 'api%5Fkey', 'API_KEY']) {
					for (const method of ['GET', 'POST', 'DELETE']) {
						for (const path of paths) {
							const url = `${path}?project=canary&${name}=${key}`;
							answers.push(
								await other.raw(
									`${method} ${url} HTTP/1.1\r\nHost: a\r\nReferer: http://a${url}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{x`,
								),
							);
						}
					}
				}
				answers.push(await other.raw(`GET /?api_key=${key} HTTP/9.9\r\n\r\n`));
				answers.push(await other.raw(`GET /?api_key=${key}${'x'.repeat(20_000)} HTTP/1.1\r\n\r\n`));
			}
			answers.push(await (await request(`project=canary&api_key=${encodedCanary}`, {}, other)).text());
			answers.push(await (await other.fetch('/metrics')).text(), ...other.log);
		});
		expect(answers.length).toBeGreaterThan(100);
		const heard = answers.join('\n').toLowerCase();
		for (const form of [canary, encodedCanary, hiddenCanary, 'canary-key', '%63%61%6e'])
			expect(heard).not.toContain(form.toLowerCase());
	});

	test('the log has one line a request: time, id, project, key, client, method, route, status, duration', async () => {
		const answer = await request(good);
		await answer.text();
		const lines = () =>
			app.log.map((line) => JSON.parse(line)).filter((line) => line.request_id === answer.headers.get('x-request-id'));
		await expect.poll(lines).toHaveLength(1);
		expect(lines()[0]).toMatchObject({
			project: 'good',
			client: '127.0.0.1',
			method: endpoint.method,
			route: endpoint.path,
			status: 200,
		});
		expect(lines()[0].time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
		const keys = await database.sql`
			select k.id::int as id from api_keys k join projects p on p.id = k.project_id where p.code = 'good'`;
		expect(lines()[0].key_id).toBe(keys[0]?.id);
		expect(lines()[0].duration_ms).toBeGreaterThan(0);
	});

	test('the log has the address that a trusted proxy tells, and of others that of the connection', async () => {
		for (const [trustProxy, client] of [
			[['127.0.0.1'], '203.0.113.7'],
			[undefined, '127.0.0.1'],
		] as const) {
			await withApp(trustProxy === undefined ? {} : { trustProxy: [...trustProxy] }, async (other) => {
				const response = await request(
					good,
					{ headers: { 'content-type': 'application/json', 'x-forwarded-for': '203.0.113.7' } },
					other,
				);
				await response.text();
				const lines = () => other.log.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'request');
				await expect.poll(lines).toHaveLength(1);
				expect(lines()[0].client).toBe(client);
			});
		}
	});

	test('requests are counted by project and status, with a time, and beyond 200 projects as one', async () => {
		const codes = Array.from({ length: 201 }, (_, index) => `counted-${index}`);
		for (const code of codes) await addProject(database.sql, code, 'key');
		await withApp({}, async (other) => {
			for (const code of codes) {
				const response = await request(`project=${code}&api_key=key&unknown=1`, {}, other);
				expect(response.status).toBe(400);
				await response.text();
			}
			await (await request('project=counted-7&api_key=key', {}, other)).text();
			await (await request('project=counted-8&api_key=wrong', {}, other)).text();
			const text = () => other.registry.metrics();
			await expect.poll(text).toMatch(/^project_requests_total\{project="counted-7",status="200"\} 1$/m);
			expect(await text()).toMatch(/^project_requests_total\{project="counted-7",status="400"\} 1$/m);
			expect(await text()).toMatch(/^project_requests_total\{project="\(other\)",status="400"\} 1$/m);
			expect(await text()).not.toContain('status="401",project');
			const times = [...(await text()).matchAll(/^project_last_request_timestamp_seconds\{.*\} ([\d.e+]+)$/gm)];
			expect(times).toHaveLength(201);
			for (const [, time] of times) expect(Math.abs(Number(time) - Date.now() / 1000)).toBeLessThan(3600);
		});
	});

	test('the level of that line: error for a 5xx, debug for what machines ask, else info', async () => {
		await withApp({ database: { url: 'postgres://a:b@127.0.0.1:1/none' } }, async (other) => {
			const levelOf = async (answer: Response) => {
				await answer.text();
				const id = answer.headers.get('x-request-id');
				const lines = () =>
					other.log
						.map((line) => JSON.parse(line))
						.filter(({ msg, request_id }) => msg === 'request' && request_id === id);
				await expect.poll(lines).toHaveLength(1);
				return lines()[0].level;
			};
			const [debug, info, error] = ['debug', 'info', 'error'];
			expect(await levelOf(await request(good, {}, other))).toBe(error);
			expect(await levelOf(await request('project=good&api_key=wrong', {}, other))).toBe(info);
			expect(await levelOf(await other.fetch('/unknown'))).toBe(info);
			for (const path of ['/health/live', '/health/ready', '/metrics'])
				expect(await levelOf(await other.fetch(path)), path).toBe(debug);
		});
	});

	test('health and metrics', async () => {
		expect(await (await app.fetch('/health/live')).json()).toEqual({ status: 'live' });
		expect(await (await app.fetch('/health/ready')).json()).toEqual({ status: 'ready' });
		const metrics = await (await app.fetch('/metrics')).text();
		expect(metrics).toContain(`http_requests_total{method="${endpoint.method}",route="${endpoint.path}",status="200"}`);
		expect(metrics).toMatch(/key_ring_refreshed_timestamp_seconds \d/);
	});
}
