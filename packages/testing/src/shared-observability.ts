import { expect } from 'vitest';
import { addProject } from './app.js';
import type { Contract } from './endpoint.js';
import { database, test } from './test.js';

/**
 * The guarantees of both services for logs, metrics and health.
 *
 * @param canary the key of the project `canary`, which must appear in none of them
 */
export function describeObservability({ app, endpoint, request, withApp, good }: Contract, canary: string): void {
	const encodedCanary = encodeURIComponent(canary);
	/** Every octet escaped, as some clients do. This is the strongest disguise by encoding. */
	const hiddenCanary = [...Buffer.from(canary)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');

	test('a key appears in no response, log line or metric, in any encoding', async () => {
		const responses: string[] = [];
		await withApp({}, async (other) => {
			const paths = [endpoint.path, '/unknown', '/api/%zz', '/health/live', '/%00'];
			for (const key of [encodedCanary, hiddenCanary, `${encodedCanary}&api_key=${encodedCanary}`]) {
				for (const name of ['api_key', 'api%5Fkey', 'API_KEY']) {
					for (const method of ['GET', 'POST', 'DELETE']) {
						for (const path of paths) {
							const url = `${path}?project=canary&${name}=${key}`;
							responses.push(
								await other.raw(
									`${method} ${url} HTTP/1.1\r\nHost: a\r\nReferer: http://a${url}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{x`,
								),
							);
						}
					}
				}
				responses.push(await other.raw(`GET /?api_key=${key} HTTP/9.9\r\n\r\n`));
				responses.push(await other.raw(`GET /?api_key=${key}${'x'.repeat(20_000)} HTTP/1.1\r\n\r\n`));
			}
			responses.push(await (await request(`project=canary&api_key=${encodedCanary}`, {}, other)).text());
			responses.push(await (await other.fetch('/metrics')).text(), ...other.log);
		});
		expect(responses.length).toBeGreaterThan(100);
		const heard = responses.join('\n').toLowerCase();
		for (const form of [canary, encodedCanary, hiddenCanary, 'canary-key', '%63%61%6e'])
			expect(heard).not.toContain(form.toLowerCase());
	});

	test('the log has one line per request: time, id, project, key, client, method, route, status, duration', async () => {
		const response = await request(good);
		await response.text();
		const lines = () =>
			app()
				.log.map((line) => JSON.parse(line))
				.filter((line) => line.request_id === response.headers.get('x-request-id'));
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

	test('the log has the client address from a trusted proxy, or else that of the connection', async () => {
		for (const [trustProxy, forwarded, client] of [
			[['127.0.0.1'], '203.0.113.7', '203.0.113.7'],
			[['127.0.0.1'], 'a secret', '127.0.0.1'],
			[undefined, '203.0.113.7', '127.0.0.1'],
		] as const) {
			await withApp(trustProxy === undefined ? {} : { trustProxy: [...trustProxy] }, async (other) => {
				const response = await request(
					good,
					{ headers: { 'content-type': 'application/json', 'x-forwarded-for': forwarded } },
					other,
				);
				await response.text();
				const lines = () => other.log.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'request');
				await expect.poll(lines).toHaveLength(1);
				expect(lines()[0].client).toBe(client);
			});
		}
	});

	test('the counters of a project, and of the failures of a route, begin at 0', async () => {
		await addProject(database.sql, 'waiting', 'key');
		await withApp({}, async (other) => {
			const text = await (await other.fetch('/metrics')).text();
			for (const status of [200, 429]) {
				expect(text).toContain(`\nproject_requests_total{project="waiting",status="${status}"} 0\n`);
			}
			expect(text).not.toContain('project_last_request_timestamp_seconds{project="waiting"}');
			const { method, path: route } = endpoint;
			for (const status of [500, 503]) {
				expect(text).toContain(`\nhttp_requests_total{method="${method}",route="${route}",status="${status}"} 0\n`);
			}
		});
	});

	test('requests are counted by project and status, with a timestamp, and those beyond 200 projects together', async () => {
		const codes = Array.from({ length: 201 }, (_, index) => `counted-${index}`);
		for (const code of codes) await addProject(database.sql, code, 'key');
		await withApp({}, async (other) => {
			for (const code of codes) {
				let status = 503;
				// After a pause of the machine the service may shed load. Clients then repeat their requests.
				while (status === 503) {
					const response = await request(`project=${code}&api_key=key&unknown=1`, {}, other);
					status = response.status;
					await response.text();
				}
				expect(status).toBe(400);
			}
			await (await request('project=counted-7&api_key=key', {}, other)).text();
			await (await request('project=counted-8&api_key=wrong', {}, other)).text();
			const text = () => other.registry.metrics();
			await expect.poll(text).toMatch(/^project_requests_total\{project="counted-7",status="200"\} 1$/m);
			expect(await text()).toMatch(/^project_requests_total\{project="counted-7",status="400"\} 1$/m);
			expect(await text()).toMatch(/^project_requests_total\{project="\(other\)",status="400"\} 1$/m);
			expect(await text()).toMatch(/^project_requests_total\{project="\(other\)",status="429"\} 0$/m);
			expect(await text()).not.toContain('status="401",project');
			const times = [...(await text()).matchAll(/^project_last_request_timestamp_seconds\{.*\} ([\d.e+]+)$/gm)];
			expect(times).toHaveLength(201);
			for (const [, time] of times) expect(Math.abs(Number(time) - Date.now() / 1000)).toBeLessThan(3600);
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
		});
	});

	test('the log level of a request is error for a 5xx, debug for probes, else info', async () => {
		await withApp({ database: { url: 'postgres://a:b@127.0.0.1:1/none' } }, async (other) => {
			const levelOf = async (response: Response) => {
				await response.text();
				const id = response.headers.get('x-request-id');
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

	test('the service reports its health and metrics', async () => {
		expect(await (await app().fetch('/health/live')).json()).toEqual({ status: 'live' });
		expect(await (await app().fetch('/health/ready')).json()).toEqual({ status: 'ready' });
		const metrics = await (await app().fetch('/metrics')).text();
		expect(metrics).toContain(`http_requests_total{method="${endpoint.method}",route="${endpoint.path}",status="200"}`);
		expect(metrics).toMatch(/key_ring_refreshed_timestamp_seconds \d/);
	});
}
