import { expect } from 'vitest';
import { addProject, type TestApp } from './app.js';
import type { Endpoint } from './endpoint.js';
import { good } from './refused-requests.js';
import { requestLine } from './request-line.js';
import type { Contract } from './shared-contract.js';
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

	test('the metrics count requests by project and status, and those beyond 200 projects together', async () => {
		await database.sql`insert into projects (code) select 'counted-' || n from generate_series(0, 200) n`;
		await database.sql`
			insert into api_keys (project_id, hash) select id, sha256('key') from projects where code like 'counted-%'`;
		await withApp({}, async (other) => {
			for (let n = 0; n <= 200; n++) {
				let status = 503;
				// After a pause of the machine the service may shed load. Clients then repeat their requests.
				while (status === 503) {
					const response = await request(first, `project=counted-${n}&api_key=key&unknown=1`, {}, other);
					status = response.status;
					await response.text();
				}
				expect(status).toBe(400);
			}
			await (await request(first, 'project=counted-7&api_key=key', {}, other)).text();
			await (await request(first, 'project=counted-8&api_key=wrong', {}, other)).text();
			const text = () => other.registry.metrics();
			await expect.poll(text).toMatch(/^project_requests_total\{project="counted-7",status="200"\} 1$/m);
			expect(await text()).toMatch(/^project_requests_total\{project="counted-7",status="400"\} 1$/m);
			expect(await text()).toMatch(/^project_requests_total\{project="\(other\)",status="400"\} 1$/m);
			expect(await text()).not.toContain('status="401",project');
			expect((await text()).match(/^project_last_request_timestamp_seconds\{/gm)).toHaveLength(201);
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
