import { once } from 'node:events';
import { createServer } from 'node:net';
import type { RejectionReason } from '@contacts/common/auth/key-ring.sql.js';
import type { Service } from '@contacts/common/process/run.js';
import type { TObject } from '@sinclair/typebox';
import { afterAll, describe, expect } from 'vitest';
import { addProject, type ProblemBody, startTestApp, type TestApp, type TestAppOptions } from './app.js';
import type { Contract, Endpoint } from './endpoint.js';
import { expectCommonHeaders, expectProblem } from './expect-problem.js';
import { watchDelays } from './machine-delays.js';
import { insertProject, setProjectEnabled } from './projects.js';
import { requestLine } from './request-line.js';
import { describeImproperRequests } from './shared-improper-requests.js';
import { describeObservability } from './shared-observability.js';
import { describeRefusedRequests } from './shared-refused-requests.js';
import { describeStrictQuery } from './strict-query.js';
import { database, test } from './test.js';

const canary = 'canary-key-5f0c_%/+é';

/** The guarantees that both services share, tested on each of them. */
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
		await addProject(database.sql, 'ancient', 'ancient-key', { expiresAt: new Date(Date.now() - 40 * 86_400_000) });
		await insertProject(database.sql, 'keyless');
		await database.sql`update api_keys set revoked_at = now() where project_id = (select id from projects where code = 'revoked')`;
		await setProjectEnabled(database.sql, 'disabled', false);
		app = await startTestApp(service, database.url);
	});
	afterAll(() => app?.close());

	describe('200', () => {
		test.each([good, 'project=here&api_key=here-key', 'project=good&api%5Fkey=good-key'])('for %s', async (query) => {
			const response = await request(query);
			expect(response.status).toBe(200);
			expectCommonHeaders(response);
		});
	});

	describe('401', () => {
		const wrong: [string, string, RejectionReason][] = [
			['nothing', '', 'missing_credential'],
			['no key', 'project=good', 'missing_credential'],
			['no project', 'api_key=good-key', 'missing_credential'],
			['an empty key', 'project=good&api_key=', 'empty_credential'],
			['an empty project', 'project=&api_key=good-key', 'empty_credential'],
			['a wrong key', 'project=good&api_key=wrong', 'unknown_key'],
			['an unknown project', 'project=unknown&api_key=good-key', 'unknown_project'],
			['the key of another project', 'project=good&api_key=other-key', 'unknown_key'],
			['a key given twice', `${good}&api_key=good-key`, 'repeated_credential'],
			['a project given twice', `${good}&project=good`, 'repeated_credential'],
			['a key in brackets', 'project=good&api_key[]=good-key', 'missing_credential'],
			['a disabled project', 'project=disabled&api_key=disabled-key', 'disabled_project'],
			['a revoked key', 'project=revoked&api_key=revoked-key', 'revoked_key'],
			['a key that expired long ago', 'project=ancient&api_key=ancient-key', 'expired_key'],
			['any key of a project without keys', 'project=keyless&api_key=good-key', 'unknown_key'],
			['a key for the other service', 'project=elsewhere&api_key=elsewhere-key', 'key_of_other_service'],
			['U+0000 in the key', 'project=good&api_key=good-key%00', 'unknown_key'],
			['U+0000 in the project', 'project=good%00&api_key=good-key', 'unknown_project'],
			['a key that is not UTF-8', 'project=good&api_key=%FF', 'malformed_credential'],
			['a key that is too long', `project=good&api_key=${'k'.repeat(4000)}`, 'unknown_key'],
		];
		test.each(wrong)('%s: only the log has the reason', async (_, query, reason) => {
			const response = await request(query);
			expect(response.headers.get('www-authenticate')).toBe('ApiKey realm="contacts"');
			const { request_id: id } = await expectProblem(response, 401, 'unauthorized');
			expect(await requestLine(app, id)).toMatchObject({ code: 'unauthorized', reason });
		});

		test('every kind of wrong credentials gets the same response, except for the request id', async () => {
			const bodies = await Promise.all(
				wrong.map(async ([, query]) => {
					const response = await request(query);
					const { request_id: id, ...rest } = (await response.json()) as ProblemBody;
					expect(id).toBe(response.headers.get('x-request-id'));
					return JSON.stringify(rest);
				}),
			);
			expect(new Set(bodies).size).toBe(1);
		});

		test('no header is accepted as credentials', async () => {
			const headers = { authorization: 'Bearer good-key', 'x-api-key': 'good-key', cookie: 'api_key=good-key' };
			await expectProblem(await request('project=good', { headers }), 401, 'unauthorized');
		});

		test('an expired key that was live when the keys were loaded', async () => {
			let now = Date.now();
			await withApp({ now: () => now }, async (other) => {
				const query = 'project=expiring&api_key=expiring-key';
				expect((await request(query, {}, other)).status).toBe(200);
				now += 3_600_001;
				const { request_id: id } = await expectProblem(await request(query, {}, other), 401, 'unauthorized');
				expect(await requestLine(other, id)).toMatchObject({ code: 'unauthorized', reason: 'expired_key' });
			});
		});

		test('is returned before other parameters, the media type or the body are checked', async () => {
			const init = endpoint.method === 'POST' ? { body: '{"broken', headers: { 'content-type': 'text/plain' } } : {};
			await expectProblem(await request('project=good&api_key=wrong&company_id=abc', init), 401, 'unauthorized');
		});
	});

	const contract: Contract = { app: () => app, endpoint, request, withApp, good };
	describeImproperRequests(contract);
	describeRefusedRequests(contract);
	describeStrictQuery({ ...contract, percent: 'project=percent' });

	describe('500', () => {
		test('at once when nothing listens where the database was', async () => {
			await withApp({ database: { url: 'postgres://a:b@127.0.0.1:1/none' } }, async (other) => {
				const response = await request(good, {}, other);
				expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
				await expectProblem(response, 500, 'database_error');
				await expectProblem(await other.fetch('/health/ready'), 503, 'database_error');
				expect((await other.fetch('/health/live')).status).toBe(200);
			});
		});

		test('within 5 seconds when the database accepts connections and does not respond', async () => {
			const silent = createServer((socket) => socket.on('error', () => undefined)).listen(0, '127.0.0.1');
			await once(silent, 'listening');
			const { port } = silent.address() as { port: number };
			await withApp({ database: { url: `postgres://a:b@127.0.0.1:${port}/none` } }, async (other) => {
				const stop = watchDelays(async () => (await other.fetch('/health/live')).text());
				const begun = performance.now();
				await expectProblem(await request(good, {}, other), 500, 'database_error');
				const ended = performance.now();
				const machine = await stop();
				expect(ended - begun - machine.during(begun, ended)).toBeLessThan(5000);
			});
			silent.close();
		});

		test('reveals nothing about the database: no SQL, no names, no stack, no host', async () => {
			const table = endpoint.table ?? service.name.replace('-', '_');
			await database.sql.unsafe(`alter table ${table} rename to hidden`);
			try {
				const response = await request(good + (endpoint.fromTable ?? ''));
				const text = await response.clone().text();
				await expectProblem(response, 500, 'database_error');
				expect(text).not.toMatch(/hidden|select|insert|relation|42P01|127\.0\.0\.1|at /i);
				expect(app.log.join('')).toContain('42P01');
			} finally {
				await database.sql.unsafe(`alter table hidden rename to ${table}`);
			}
		});

		test('is not returned after a killed backend: the statement is sent again', async () => {
			const survive = (applicationName: string) =>
				withApp({ database: { applicationName, poolSize: 1 } }, async (other) => {
					expect((await request(good, {}, other)).status).toBe(200);
					for (let round = 0; round < 2; round++) {
						await database.sql`
							select pg_terminate_backend(pid) from pg_stat_activity
							where datname = current_database() and application_name = ${applicationName}`;
						expect((await request(good, {}, other)).status).toBe(200);
					}
				});
			await Promise.all([1, 2, 3].map((n) => survive(`to be killed ${n}`)));
		});
	});

	test('returns 503 with Retry-After when too many callers wait for the database', async () => {
		await withApp({ database: { maxCallers: 0 } }, async (other) => {
			const response = await request(good, {}, other);
			expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
			await expectProblem(response, 503, 'overloaded');
		});
	});

	describeObservability(contract, canary);
}
