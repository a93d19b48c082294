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
const fail = (app: TestApp, from?: string) =>
	app.fetch(`${path}?project=first&api_key=wrong`, from === undefined ? {} : { headers: { 'x-forwarded-for': from } });
const small = { environment: { RATE_LIMIT_PER_SECOND: '2', RATE_LIMIT_BURST: '3' } };

/**
 * Sends all requests at one moment of the clock, few at a time. Returns how many the limiter admitted and refused, and how many
 * failed authentication. What a busy machine does to an admitted request does not matter. One that it sheds before the limiter
 * is sent again.
 */
async function decisions(count: number, request: () => Promise<Response>) {
	const total = { admitted: 0, refused: 0, unauthorized: 0 };
	for (let left = count; left > 0; ) {
		for (const response of await Promise.all(Array.from({ length: Math.min(25, left) }, request))) {
			await response.arrayBuffer();
			if (response.status === 401) total.unauthorized++;
			else if (response.status === 429) total.refused++;
			else if (response.headers.has('ratelimit-limit')) total.admitted++;
			else continue;
			left--;
		}
	}
	return total;
}

const outcome = (admitted: number, refused: number) => ({ admitted, refused, unauthorized: 0 });
const failures = (unauthorized: number, refused: number) => ({ admitted: 0, refused, unauthorized });

test('exactly 250 of 300 requests at once pass; then 5 a second, evenly; each project has its own bucket', async () => {
	await withApp({}, async (app, wait) => {
		expect(await decisions(300, () => list(app))).toEqual(outcome(250, 50));
		expect(await decisions(260, () => list(app, 'second'))).toEqual(outcome(250, 10));
		for (let part = 0; part < 10; part++) {
			wait(199);
			expect(await decisions(2, () => list(app))).toEqual(outcome(0, 2));
			wait(1);
			expect(await decisions(3, () => list(app))).toEqual(outcome(1, 2));
		}
	});
});

test('lists and changes, and all keys of a project, share its bucket', async () => {
	await addProject(database.sql, 'shared', 'shared-key');
	await addProject(database.sql, 'shared', 'another-key');
	await withApp(small, async (app) => {
		const requests = [
			() => list(app, 'shared'),
			() => app.fetch('/api/company_contacts.changes?project=shared&api_key=another-key'),
			() => app.fetch(`${path}?project=shared&api_key=another-key`),
		];
		for (const request of requests) expect(await decisions(1, request)).toEqual(outcome(1, 0));
		for (const request of requests) expect(await decisions(1, request)).toEqual(outcome(0, 1));
	});
});

test('every response that reached the limiter has one set of rate-limit headers, and no other has one', async () => {
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
		// The time until the next token, in whole seconds.
		expect(await seen()).toEqual([429, '3', '0', '1', '1']);
		wait(1);
		expect((await seen())[0]).toBe(200);
		const others = [app.fetch(path), app.fetch(path, { method: 'POST' }), app.fetch('/health/live')];
		for (const { headers } of await Promise.all(others))
			expect([...headers.keys()].filter((name) => name.includes('ratelimit'))).toEqual([]);
	});
});

test('checks run in the order 405, 401, 429, 400; what is refused uses no token and causes no query', async () => {
	await withApp(small, async (app) => {
		expect(await decisions(2, () => fail(app))).toEqual(failures(2, 0));
		for (let n = 0; n < 5; n++) {
			const response = await app.fetch(`${path}?project=first&api_key=first-key`, { method: 'DELETE' });
			await expectProblem(response, 405, 'method_not_allowed');
		}
		expect(await decisions(4, () => list(app))).toEqual(outcome(3, 1));
		const wrong = await app.fetch(`${path}?project=first&api_key=wrong&company_id=abc`);
		await expectProblem(wrong, 401, 'unauthorized');
		// With the table away, a query would cause a 500.
		await database.sql`alter table company_contacts rename to hidden`;
		try {
			for (const rest of ['', '&company_id=abc', '&companyid=1', '&company_id=%zz']) {
				const { request_id: id } = await expectProblem(await list(app, 'first', rest), 429, 'rate_limited');
				expect(await requestLine(app, id)).toMatchObject({ code: 'rate_limited', project: 'first' });
			}
		} finally {
			await database.sql`alter table hidden rename to company_contacts`;
		}
	});
});

describe('failed authentications', () => {
	test('are limited at the same rate, while a valid key from the same address is served', async () => {
		await withApp({}, async (app, wait) => {
			expect(await decisions(300, () => fail(app))).toEqual(failures(250, 50));
			const refused = await fail(app);
			expect(refused.headers.get('retry-after')).toBe('1');
			const { request_id: id } = await expectProblem(refused, 429, 'rate_limited');
			expect(await requestLine(app, id)).not.toHaveProperty('project');
			expect(await decisions(1, () => list(app))).toEqual(outcome(1, 0));
			wait(200);
			expect(await decisions(3, () => fail(app))).toEqual(failures(1, 2));
		});
	});

	test('are limited per address that the trusted proxy reports: each IPv4, each IPv6 /64', async () => {
		await withApp({ ...small, trustProxy: ['127.0.0.1'] }, async (app) => {
			for (const [from, count, refusals] of [
				['203.0.113.1', 4, 1],
				['203.0.113.2', 4, 1],
				['2001:db8:1:1::1', 2, 0],
				['2001:DB8:1:1:ffff::2', 2, 1],
				['2001:db8:1:2::1', 4, 1],
				['::ffff:203.0.113.1', 1, 1],
			] as const)
				expect(await decisions(count, () => fail(app, from)), from).toEqual(failures(count - refusals, refusals));
		});
	});

	test('are not limited by an address that an untrusted client claims', async () => {
		await withApp(small, async (app) => {
			let last = 0;
			expect(await decisions(6, () => fail(app, `203.0.113.${last++}`))).toEqual(failures(3, 3));
		});
	});

	test('of a client that resets its connection get a 401 too', async () => {
		await withApp({ ...small, trustProxy: ['127.0.0.1'] }, async (app) => {
			const socket = connect(Number(new URL(app.url).port), '127.0.0.1');
			await once(socket, 'connect');
			socket.write(`GET ${path}?project=first&api_key=wrong HTTP/1.1\r\nHost: a\r\n\r\n`);
			socket.resetAndDestroy();
			await expect.poll(() => app.log.filter((line) => JSON.parse(line).status === 401)).toHaveLength(1);
		});
	});
});
