import { once } from 'node:events';
import { connect } from 'node:net';
import { addProject, startTestApp, type TestApp, type TestAppOptions } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { requestLine } from '@contacts/testing/request-line.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { service } from '../app.js';

test.beforeAll(async () => {
	for (const code of ['first', 'second']) await addProject(database.sql, code, `${code}-key`);
});

/** An app with full buckets. Its clock stands still unless a test moves it. */
async function withApp(
	options: TestAppOptions,
	work: (app: TestApp, wait: (milliseconds: number) => void) => Promise<void>,
) {
	let now = 0;
	const app = await startTestApp(service, database.url, { clock: () => now, ...options });
	try {
		await work(app, (milliseconds) => {
			now += milliseconds;
		});
	} finally {
		await app.close();
	}
}

const path = '/api/company_contacts.list';
const list = (app: TestApp, project = 'first', rest = '') =>
	app.fetch(`${path}?project=${project}&api_key=${project}-key&company_id=1${rest}`);
async function statuses(requests: Promise<Response>[]): Promise<Record<number, number>> {
	const counts: Record<number, number> = {};
	for (const response of await Promise.all(requests)) {
		await response.arrayBuffer();
		counts[response.status] = (counts[response.status] ?? 0) + 1;
	}
	return counts;
}
/**
 * Sends all requests at one moment of the clock, few at a time. Those that a busy machine sheds, which cost no token, are sent
 * again.
 */
async function many(count: number, request: () => Promise<Response>): Promise<Record<number, number>> {
	const total: Record<number, number> = {};
	for (let left = count; left > 0; ) {
		const { 503: _, ...part } = await statuses(Array.from({ length: Math.min(25, left) }, request));
		for (const [status, times] of Object.entries(part)) {
			total[Number(status)] = (total[Number(status)] ?? 0) + times;
			left -= times;
		}
	}
	return total;
}
const small = { environment: { RATE_LIMIT_PER_SECOND: '2', RATE_LIMIT_BURST: '3' } };

test('exactly 250 of 300 requests at once pass; then 5 a second, evenly', async () => {
	await withApp({}, async (app, wait) => {
		expect(await many(300, () => list(app))).toEqual({ 200: 250, 429: 50 });
		for (let second = 0; second < 10; second++) {
			for (let part = 0; part < 5; part++) {
				wait(200);
				expect(await many(3, () => list(app))).toEqual({ 200: 1, 429: 2 });
			}
		}
	});
});

test('each project has its own bucket', async () => {
	await withApp({}, async (app) => {
		expect(await many(260, () => list(app, 'first'))).toEqual({ 200: 250, 429: 10 });
		expect(await many(260, () => list(app, 'second'))).toEqual({ 200: 250, 429: 10 });
	});
});

test('all keys of a project share its bucket', async () => {
	await addProject(database.sql, 'shared', 'shared-key');
	await addProject(database.sql, 'shared', 'another-key');
	await withApp(small, async (app) => {
		const other = () => app.fetch(`${path}?project=shared&api_key=another-key`);
		expect(await statuses([list(app, 'shared'), other(), list(app, 'shared'), other()])).toEqual({ 200: 3, 429: 1 });
	});
});

describe('headers', () => {
	test('every response that reached the limiter has exactly one set of rate-limit headers', async () => {
		await withApp(small, async (app, wait) => {
			const seen = async (rest = '') => {
				const { status, headers } = await list(app, 'first', rest);
				const names = ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset', 'retry-after'];
				expect([...headers.keys()].filter((name) => name.includes('ratelimit'))).toEqual(names.slice(0, 3));
				return [status, ...names.map((name) => headers.get(name))];
			};
			expect(await seen()).toEqual([200, '3', '2', '1', null]);
			expect(await seen('&company_id=abc')).toEqual([400, '3', '1', '1', null]);
			expect(await seen()).toEqual([200, '3', '0', '2', null]);
			expect(await seen()).toEqual([429, '3', '0', '1', '1']);
			wait(499);
			expect(await seen()).toEqual([429, '3', '0', '1', '1']);
			wait(1);
			expect((await seen())[0]).toBe(200);
		});
	});

	test('Retry-After is the time until the next token, in whole seconds', async () => {
		await withApp({ environment: { RATE_LIMIT_PER_SECOND: '1', RATE_LIMIT_BURST: '1' } }, async (app) => {
			await list(app);
			const response = await list(app);
			expect(response.headers.get('retry-after')).toBe('1');
			const { request_id: id } = await expectProblem(response, 429, 'rate_limited');
			expect(await requestLine(app, id)).toMatchObject({ code: 'rate_limited', project: 'first' });
		});
	});

	test('a response that never reached the limiter has no rate-limit headers', async () => {
		await withApp({}, async (app) => {
			const responses = [app.fetch(path), app.fetch(path, { method: 'POST' }), app.fetch('/health/live')];
			for (const { headers } of await Promise.all(responses))
				expect([...headers.keys()].filter((name) => name.includes('ratelimit'))).toEqual([]);
		});
	});
});

describe('order', () => {
	test('checks run in the order 405, 401, 429, 400; a refused request uses no token and causes no query', async () => {
		await withApp(small, async (app) => {
			expect(await many(3, () => list(app))).toEqual({ 200: 3 });
			await expectProblem(
				await app.fetch(`${path}?project=first&api_key=first-key`, { method: 'PUT' }),
				405,
				'method_not_allowed',
			);
			await expectProblem(await app.fetch(`${path}?project=first&api_key=wrong&company_id=abc`), 401, 'unauthorized');
			// With the table away, a query would cause a 500.
			await database.sql`alter table company_contacts rename to hidden`;
			try {
				for (const wrong of ['&company_id=abc', '&companyid=1', '&company_id=%zz'])
					await expectProblem(await list(app, 'first', wrong), 429, 'rate_limited');
				await expectProblem(await list(app), 429, 'rate_limited');
			} finally {
				await database.sql`alter table hidden rename to company_contacts`;
			}
		});
	});

	test('401s and 405s use no token of the project', async () => {
		await withApp(small, async (app) => {
			await many(2, () => app.fetch(`${path}?project=first&api_key=wrong`));
			await many(50, () => app.fetch(`${path}?project=first&api_key=first-key`, { method: 'DELETE' }));
			expect(await many(4, () => list(app))).toEqual({ 200: 3, 429: 1 });
		});
	});
});

describe('failed authentications', () => {
	const fail = (app: TestApp, from?: string) =>
		app.fetch(
			`${path}?project=first&api_key=wrong`,
			from === undefined ? {} : { headers: { 'x-forwarded-for': from } },
		);

	test('are limited at the same rate, while a valid key from the same address is served', async () => {
		await withApp({}, async (app, wait) => {
			expect(await many(300, () => fail(app))).toEqual({ 401: 250, 429: 50 });
			const refused = await fail(app);
			expect(refused.headers.get('retry-after')).toBe('1');
			const { request_id: id } = await expectProblem(refused, 429, 'rate_limited');
			const line = await requestLine(app, id);
			expect(line).toMatchObject({ code: 'rate_limited' });
			expect(line).not.toHaveProperty('project');
			expect((await list(app)).status).toBe(200);
			wait(200);
			expect(await many(3, () => fail(app))).toEqual({ 401: 1, 429: 2 });
		});
	});

	test('are limited per address that the trusted proxy reports: each IPv4, each IPv6 /64', async () => {
		await withApp({ ...small, trustProxy: ['127.0.0.1'] }, async (app) => {
			expect(await many(4, () => fail(app, '203.0.113.1'))).toEqual({ 401: 3, 429: 1 });
			expect(await many(4, () => fail(app, '203.0.113.2'))).toEqual({ 401: 3, 429: 1 });
			expect(await many(2, () => fail(app, '2001:db8:1:1::1'))).toEqual({ 401: 2 });
			expect(await many(2, () => fail(app, '2001:DB8:1:1:ffff::2'))).toEqual({ 401: 1, 429: 1 });
			expect(await many(4, () => fail(app, '2001:db8:1:2::1'))).toEqual({ 401: 3, 429: 1 });
			expect(await many(1, () => fail(app, '::ffff:203.0.113.1'))).toEqual({ 429: 1 });
		});
	});

	test.each([[[]], [['127.0.0.1']]])(
		'of a client that resets its connection get a 401 too, with trusted proxies %j',
		async (trusted) => {
			await withApp({ ...small, ...(trusted.length > 0 ? { trustProxy: trusted } : {}) }, async (app) => {
				const socket = connect(Number(new URL(app.url).port), '127.0.0.1');
				await once(socket, 'connect');
				socket.write(`GET ${path}?project=first&api_key=wrong HTTP/1.1\r\nHost: a\r\n\r\n`);
				socket.resetAndDestroy();
				const statuses = () =>
					app.log.map((line) => JSON.parse(line)).flatMap(({ msg, status }) => (msg === 'request' ? [status] : []));
				await expect.poll(statuses).toEqual([401]);
			});
		},
	);

	test('are not limited by an address that an untrusted client claims', async () => {
		await withApp(small, async (app) => {
			const requests = Array.from({ length: 6 }, (_, index) => fail(app, `203.0.113.${index}`));
			expect(await statuses(requests)).toEqual({ 401: 3, 429: 3 });
		});
	});
});

test('the metrics count decisions and failed authentications', async () => {
	await withApp(small, async (app) => {
		await many(4, () => list(app));
		await many(4, () => app.fetch(path));
		const text = await (await app.fetch('/metrics')).text();
		expect(text).toContain('rate_limit_decisions_total{decision="admitted",bucket="local"} 3');
		expect(text).toContain('rate_limit_decisions_total{decision="refused",bucket="local"} 1');
		expect(text).toContain('authentication_failures_total{limited="false"} 3');
		expect(text).toContain('authentication_failures_total{limited="true"} 1');
		expect(text).not.toContain('rate_limit_redis_up');
	});
});
