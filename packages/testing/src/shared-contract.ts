import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { METHODS } from 'node:http';
import { createServer } from 'node:net';
import { insertProject, setProjectEnabled } from '@contacts/common/auth/projects.sql.js';
import type { Service } from '@contacts/common/process/run.js';
import { urlAs } from '@contacts/migrations/roles.js';
import type { TObject } from '@sinclair/typebox';
import { afterAll, describe, expect } from 'vitest';
import { addProject, startTestApp, type TestApp } from './app.js';
import { rolePassword } from './database.js';
import { responseOf } from './documented.js';
import type { Contract, Endpoint } from './endpoint.js';
import { expectCommonHeaders, expectProblem } from './expect-problem.js';
import { good, type RefusedRequest, refusedBy, refusedByServer, unauthorized } from './refused-requests.js';
import { requestLine } from './request-line.js';
import { describeObservability } from './shared-observability.js';
import { watchStarvedTime } from './starved-time.js';
import { startTcpProxy } from './tcp-proxy.js';
import { database, test } from './test.js';

/** The guarantees that both services share, tested on each of them, and on each endpoint where it has them. */
export function describeSharedContract<V extends TObject>(service: Service<V>, ...endpoints: Endpoint[]): void {
	let app: TestApp;
	const request: Contract['request'] = ({ method, path, body }, query, init = {}, on = app) =>
		on.fetch(`${path}${query === '' ? '' : `?${query}`}`, {
			method,
			...(body === undefined ? {} : { body, headers: { 'content-type': 'application/json' } }),
			...init,
		});
	const withApp: Contract['withApp'] = async (options, work) => {
		const other = await startTestApp(service, database.url, options);
		try {
			await work(other);
		} finally {
			await other.close();
		}
	};

	test.beforeAll(async () => {
		const elsewhere = service.name === 'personal-contacts' ? 'company-contacts' : 'personal-contacts';
		const hour = 3_600_000;
		await addProject(database.sql, 'good', 'good-key');
		await addProject(database.sql, 'twin', 'good-key');
		await addProject(database.sql, 'percent', '100%');
		await addProject(database.sql, 'here', 'here-key', { service: service.name });
		await addProject(database.sql, 'elsewhere', 'elsewhere-key', { service: elsewhere });
		await addProject(database.sql, 'expiring', 'expiring-key', { expiresAt: new Date(Date.now() + hour) });
		await addProject(database.sql, 'ancient', 'ancient-key', { expiresAt: new Date(Date.now() - 1000 * hour) });
		await addProject(database.sql, 'disabled', 'disabled-key');
		await setProjectEnabled(database.sql, 'disabled', false);
		await addProject(database.sql, 'revoked', 'revoked-key');
		await database.sql`
			update api_keys set revoked_at = now() where project_id = (select id from projects where code = 'revoked')`;
		await insertProject(database.sql, 'keyless');
		// Its own limits have separate tests. Here they would hide other responses.
		const environment = { RATE_LIMIT_PER_SECOND: '100000', RATE_LIMIT_BURST: '100000' };
		app = await startTestApp(service, database.url, { environment });
	});
	afterAll(() => app?.close());

	/** The response has the form of every error, and neither it nor the line of the log repeats what was sent. */
	async function expectRefused(endpoint: Endpoint, refused: RefusedRequest): Promise<void> {
		const { path = endpoint.path, query = good, init, bytes, status, code, fields = [], reason } = refused;
		const response =
			bytes === undefined ? await request({ ...endpoint, path }, query, init) : responseOf(await app.raw(bytes));
		const text = await response.clone().text();
		const { request_id: id, errors = [] } = await expectProblem(response, status, code);
		const named = errors.map(({ field }) => field);
		expect(named).toEqual(expect.arrayContaining(fields));
		const line = await requestLine(app, id);
		expect(line).toMatchObject({
			...{ status, code, client: '127.0.0.1' },
			...(errors.length > 0 ? { fields: named } : {}),
			...(reason === undefined ? {} : { reason }),
		});
		expect(text + JSON.stringify(line)).not.toMatch(/canary/i);
	}

	describe.each(endpoints)('$path', (endpoint) => {
		test.each([
			good,
			'project=here&api_key=here-key',
			'project=twin&api_key=good-key',
			'project=good&api%5Fkey=good-key',
			'project=percent&api_key=100%25',
		])('200 for %s', async (query) => {
			const response = await request(endpoint, query);
			expect(response.status).toBe(200);
			expectCommonHeaders(response);
		});

		test.each(Object.entries({ ...unauthorized, ...refusedBy(endpoint) }))('is refused: %s', (_, refused) =>
			expectRefused(endpoint, refused),
		);

		test('all wrong credentials get the same 401, except for the request ID', async () => {
			const seen = new Set<string>();
			for (const { query = '', init } of Object.values(unauthorized)) {
				const response = await request(endpoint, query, init);
				const id = String(response.headers.get('x-request-id'));
				const headers = [...response.headers].filter(([name]) => name !== 'date');
				seen.add((JSON.stringify([response.status, headers]) + (await response.text())).replaceAll(id, ''));
			}
			expect(seen.size).toBe(1);
			expect([...seen][0]).toContain('["www-authenticate","ApiKey realm=\\"contacts\\""]');
		});

		test('a 401 is returned before other parameters, the media type or the body are checked', async () => {
			const init = endpoint.method === 'POST' ? { body: '{"broken', headers: { 'content-type': 'text/plain' } } : {};
			const response = await request(endpoint, 'project=good&api_key=wrong&company_id=abc', init);
			await expectProblem(response, 401, 'unauthorized');
		});

		test('nothing waits between the last check of the key and the route: what it serves belongs to the state of that check', async () => {
			const { isLive } = app.keyRing;
			let hasWaited = true;
			const stepOn = () => {
				hasWaited = true;
			};
			app.keyRing.isLive = (project) => {
				hasWaited = false;
				process.nextTick(stepOn);
				queueMicrotask(stepOn);
				return isLive(project);
			};
			const waits: boolean[] = [];
			const onRoute = () => void waits.push(hasWaited);
			subscribe('tracing:fastify.request.handler:start', onRoute);
			try {
				expect((await request(endpoint, good)).status).toBe(200);
			} finally {
				unsubscribe('tracing:fastify.request.handler:start', onRoute);
				app.keyRing.isLive = isLive;
			}
			expect(waits).toEqual([false]);
		});

		test('every other method gets a 405, with credentials or without', async () => {
			// CONNECT requests a tunnel, not a path.
			for (const method of METHODS.filter((each) => each !== endpoint.method && each !== 'CONNECT')) {
				for (const query of ['', `?${good}`]) {
					const response = await app.raw(
						`${method} ${endpoint.path}${query} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx`,
					);
					expect(response).toMatch(/^HTTP\/1.1 405 Method Not Allowed\r\n/);
					expect(response).toMatch(new RegExp(`\r\nallow: ${endpoint.method}\r\n`, 'i'));
					expect(response).toMatch(/\r\ncontent-type: application\/problem\+json\r\n/i);
					if (method !== 'HEAD') expect(response).toContain('"code":"method_not_allowed"');
				}
			}
		});

		test('a 500 reveals nothing about the database: no SQL, no names, no stack, no host', async () => {
			const table = endpoint.table ?? service.name.replace('-', '_');
			await database.sql.unsafe(`alter table ${table} rename to hidden`);
			try {
				const response = await request(endpoint, good + (endpoint.fromTable ?? ''));
				const text = await response.clone().text();
				await expectProblem(response, 500, 'database_error');
				expect(text).not.toMatch(/hidden|select|insert|relation|42P01|127\.0\.0\.1|at /i);
				expect(app.log.join('')).toContain('42P01');
			} finally {
				await database.sql.unsafe(`alter table hidden rename to ${table}`);
			}
		});

		test('a killed backend causes no 500: the statement is sent again', async () => {
			const applicationName = `to be killed ${endpoint.path}`;
			await withApp({ database: { applicationName, poolSize: 1 } }, async (other) => {
				expect((await request(endpoint, good, {}, other)).status).toBe(200);
				for (let round = 0; round < 2; round++) {
					await database.sql`
						select pg_terminate_backend(pid) from pg_stat_activity
						where datname = current_database() and application_name = ${applicationName}`;
					expect((await request(endpoint, good, {}, other)).status).toBe(200);
				}
			});
		});
	});

	const [first] = endpoints as [Endpoint, ...Endpoint[]];

	test.each(Object.entries(refusedByServer()))('is refused: %s', (_, refused) => expectRefused(first, refused));

	test('a key that expires while it is in memory gets a 401 from that moment on', async () => {
		let now = Date.now();
		await withApp({ now: () => now }, async (other) => {
			const query = 'project=expiring&api_key=expiring-key';
			expect((await request(first, query, {}, other)).status).toBe(200);
			now += 3_600_001;
			const { request_id: id } = await expectProblem(await request(first, query, {}, other), 401, 'unauthorized');
			expect(await requestLine(other, id)).toMatchObject({ code: 'unauthorized', reason: 'expired_key' });
		});
	});

	test('a revoked key gets a 401 less than two seconds after the last poll, whenever the next one is due', async () => {
		await addProject(database.sql, 'leaving', 'leaving-key');
		let now = 0;
		await withApp({ poll: { intervalMs: 600_000, clock: () => now } }, async (other) => {
			const status = async () => (await request(first, 'project=leaving&api_key=leaving-key', {}, other)).status;
			expect(await status()).toBe(200);
			await database.sql`
				update api_keys set revoked_at = now() where project_id = (select id from projects where code = 'leaving')`;
			now = 999;
			expect(await status()).toBe(200);
			now = 1900;
			expect(await status()).toBe(401);
		});
	});

	test('a new key is accepted a second after it was made, whenever the next poll is due', async () => {
		let now = 0;
		await withApp({ poll: { intervalMs: 600_000, clock: () => now } }, async (other) => {
			await addProject(database.sql, 'coming', 'coming-key');
			now = 1001;
			expect((await request(first, 'project=coming&api_key=coming-key', {}, other)).status).toBe(200);
			await expectProblem(await request(first, 'project=coming&api_key=other-key', {}, other), 401, 'unauthorized');
		});
	});

	test('while the keys can’t be confirmed, only what can be no key gets a 401', async () => {
		await withApp({ pollUrl: 'postgres://127.0.0.1:1/none' }, async (other) => {
			for (const query of ['', 'project=good', `${good}&api_key=`, 'project=good&api_key=%', 'project=&api_key=x'])
				await expectProblem(await request(first, query, {}, other), 401, 'unauthorized');
			await expectProblem(await request(first, good, {}, other), 500, 'database_error');
		});
	});

	test('a 500 within 5 seconds when the database accepts connections and does not respond', async () => {
		const silent = createServer((socket) => socket.on('error', () => undefined)).listen(0, '127.0.0.1');
		await once(silent, 'listening');
		const { port } = silent.address() as { port: number };
		await withApp({ database: { url: `postgres://a:b@127.0.0.1:${port}/none` } }, async (other) => {
			const machine = watchStarvedTime(() => []);
			const begun = performance.now();
			const responses = endpoints.map(async (endpoint) =>
				expectProblem(await request(endpoint, good, {}, other), 500, 'database_error'),
			);
			await Promise.all(responses);
			machine.stop();
			expect(machine.own({ begun, ended: performance.now() })).toBeLessThan(5000);
		});
		silent.close();
	});

	test('a response within 5 seconds for a new key, when the poll gets its response late, and no statement one', async () => {
		const [statements, poll] = await Promise.all([startTcpProxy(database.url), startTcpProxy(database.url)]);
		const url = urlAs(statements.through(database.url), service.name, rolePassword);
		await withApp({ database: { url }, pollUrl: poll.through(database.url) }, async (other) => {
			expect((await request(first, good, {}, other)).status).toBe(200);
			statements.stall();
			poll.stall();
			await addProject(database.sql, 'newest', 'newest-key');
			await expect.poll(() => other.poll.confirmed).toBeUndefined();
			const machine = watchStarvedTime(() => []);
			const begun = performance.now();
			const timer = setTimeout(() => void poll.restore(), 2500);
			const response = await request(first, 'project=newest&api_key=newest-key', {}, other);
			const milliseconds = machine.own({ begun, ended: performance.now() });
			machine.stop();
			clearTimeout(timer);
			await Promise.all([statements.restore(), poll.restore()]);
			// A list that is in memory needs no statement.
			expect([200, 500]).toContain(response.status);
			expect(milliseconds).toBeLessThan(5000);
		});
		statements.close();
		poll.close();
	});

	describeObservability({ app: () => app, endpoints, request, withApp });
}
