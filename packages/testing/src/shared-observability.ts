import { expect } from 'vitest';
import { addProject, type TestApp } from './app.js';
import type { Contract, Endpoint } from './endpoint.js';
import { good } from './refused-requests.js';
import { requestLine } from './request-line.js';
import { database, test } from './test.js';

const canary = 'canary-key-5f0c_%/+é';

/** The guarantees of both services for logs and metrics. */
export function describeObservability({ app, endpoints, request, withApp }: Contract): void {
	const [first] = endpoints as [Endpoint, ...Endpoint[]];
	const lineOf = async (response: Response, on: TestApp) => {
		await response.text();
		return requestLine(on, response.headers.get('x-request-id'));
	};

	test('a key appears in no response, log line or metric, in any encoding', async () => {
		await addProject(database.sql, 'canary', canary);
		const encoded = encodeURIComponent(canary);
		/** Every octet escaped, as some clients do. This is the strongest disguise by encoding. */
		const hidden = [...Buffer.from(canary)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
		const seen: string[] = [];
		await withApp({}, async (other) => {
			const paths = [...endpoints.map(({ path }) => path), '/unknown', '/api/%zz', '/health/live', '/%00'];
			for (const key of [encoded, hidden, `${encoded}&api_key=${encoded}`]) {
				for (const name of ['api_key', 'api%5Fkey', 'API_KEY']) {
					for (const method of ['GET', 'POST', 'DELETE']) {
						for (const path of paths) {
							const url = `${path}?project=canary&${name}=${key}`;
							seen.push(
								await other.raw(
									`${method} ${url} HTTP/1.1\r\nHost: a\r\nReferer: http://a${url}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{x`,
								),
							);
						}
					}
				}
				seen.push(await other.raw(`GET /?api_key=${key} HTTP/9.9\r\n\r\n`));
				seen.push(await other.raw(`GET /?api_key=${key}${'x'.repeat(20_000)} HTTP/1.1\r\n\r\n`));
			}
			for (const endpoint of endpoints) {
				const response = await request(endpoint, `project=canary&api_key=${encoded}`, {}, other);
				expect(response.status).toBe(200);
				seen.push(await response.text());
			}
			seen.push(await (await other.fetch('/metrics')).text(), ...other.log);
		});
		expect(seen.length).toBeGreaterThan(100);
		const all = seen.join('\n').toLowerCase();
		for (const form of [canary, encoded, hidden, 'canary-key', '%63%61%6e'])
			expect(all).not.toContain(form.toLowerCase());
	});

	test.each(endpoints)('the log has one line for each request to $path', async (endpoint) => {
		const keys = await database.sql`
			select k.id::int as id from api_keys k join projects p on p.id = k.project_id where p.code = 'good'`;
		const line = await lineOf(await request(endpoint, good), app());
		expect(line).toMatchObject({
			time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
			level: 'info',
			project: 'good',
			key_id: keys[0]?.id,
			client: '127.0.0.1',
			method: endpoint.method,
			route: endpoint.path,
			status: 200,
		});
		expect(line.duration_ms).toBeGreaterThan(0);
	});

	test.each([
		[['127.0.0.1'], '203.0.113.7', '203.0.113.7'],
		[['127.0.0.1'], 'a secret', '127.0.0.1'],
		[undefined, '203.0.113.7', '127.0.0.1'],
	])(
		'with the trusted proxies %j, the log has for a request that was forwarded for %s the client %s',
		async (trustProxy, forwarded, client) => {
			await withApp(trustProxy === undefined ? {} : { trustProxy }, async (other) => {
				const headers = { 'content-type': 'application/json', 'x-forwarded-for': forwarded };
				expect(await lineOf(await request(first, good, { headers }, other), other)).toMatchObject({ client });
			});
		},
	);

	test('the log level of a request is error for a 5xx, and debug for probes', async () => {
		await withApp({ database: { url: 'postgres://a:b@127.0.0.1:1/none' } }, async (other) => {
			const levelOf = async (response: Response) => (await lineOf(response, other)).level;
			expect(await levelOf(await request(first, good, {}, other))).toBe('error');
			expect(await levelOf(await request(first, 'project=good&api_key=wrong', {}, other))).toBe('info');
			for (const path of ['/health/live', '/health/ready', '/metrics'])
				expect(await levelOf(await other.fetch(path)), path).toBe('debug');
		});
	});

	test('the counters of a project, and of the failures of a route, begin at 0', async () => {
		await addProject(database.sql, 'waiting', 'key');
		await withApp({}, async (other) => {
			const text = await (await other.fetch('/metrics')).text();
			for (const status of [200, 429])
				expect(text).toContain(`\nproject_requests_total{project="waiting",status="${status}"} 0\n`);
			expect(text).not.toContain('project_last_request_timestamp_seconds{project="waiting"}');
			for (const { method, path } of endpoints)
				for (const status of [500, 503])
					expect(text).toContain(`\nhttp_requests_total{method="${method}",route="${path}",status="${status}"} 0\n`);
		});
	});

	test('the metrics count the requests of each project by their status', async () => {
		await addProject(database.sql, 'counted', 'counted-key');
		await withApp({}, async (other) => {
			for (const query of ['', '', '&unknown=1'])
				await (await request(first, `project=counted&api_key=counted-key${query}`, {}, other)).text();
			await (await request(first, 'project=counted&api_key=wrong', {}, other)).text();
			const counts = async () =>
				[...(await other.registry.metrics()).matchAll(/^project_requests_total\{project="counted",(.+)$/gm)]
					.map(([, count]) => count)
					.filter((count) => !count?.endsWith(' 0'));
			await expect.poll(counts).toEqual(['status="200"} 2', 'status="400"} 1']);
			expect(await other.registry.metrics()).toMatch(
				/^project_last_request_timestamp_seconds\{project="counted"\} \d/m,
			);
		});
	});

	test('the metrics say when the next live key of a project expires', async () => {
		const soon = Date.now() + 86_400_000;
		await addProject(database.sql, 'ending', 'later-key', { expiresAt: new Date(soon + 86_400_000) });
		await addProject(database.sql, 'ending', 'next-key', { expiresAt: new Date(soon) });
		await addProject(database.sql, 'ending', 'endless-key');
		await addProject(database.sql, 'ended', 'ended-key', { expiresAt: new Date(Date.now() - 1000) });
		await withApp({}, async (other) => {
			const text = await (await other.fetch('/metrics')).text();
			const [, time] = /^api_key_expiry_timestamp_seconds\{project="ending"\} (.+)$/m.exec(text) ?? [];
			expect(Number(time)).toBeCloseTo(soon / 1000, 2);
			expect(text).not.toMatch(/^api_key_expiry_timestamp_seconds\{project="(ended|good)"\}/m);
			expect(text).toMatch(/key_ring_refreshed_timestamp_seconds \d/);
		});
	});
}
