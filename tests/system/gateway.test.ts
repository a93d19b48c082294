import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { urlAs } from '@contacts/common/database/roles.js';
import { addProject, type ProblemBody } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { gatewayConfig } from '@contacts/testing/gateway.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import { exchangeText } from '@contacts/testing/raw-http.js';
import { type RunningService, startService } from '@contacts/testing/services.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';

const canary = 'canary-4711';
const path = '/api/company_contacts.list';
let service: RunningService;
let gateway: RunningNginx;

test.beforeAll(async () => {
	await addProject(database.sql, 'first', canary);
	await database.sql`insert into company_contacts (bitrix_id, name) select n, repeat('x', 1000) from generate_series(1, 50) n`;
	service = await startService('company-contacts', {
		DATABASE_URL: urlAs(database.url, 'company-contacts', rolePassword),
		TRUST_PROXY: 'loopback',
		RATE_LIMIT_PER_SECOND: '5',
	});
	gateway = await startNginx(gatewayConfig(new URL(service.url).host));
});
afterAll(async () => {
	await gateway?.stop();
	await service?.stop();
});

const query = `?project=first&api_key=${canary}&company_id=1`;
const get = (target: string, init?: RequestInit) => fetch(gateway.url + target, init);

/** Sends this request target unchanged. */
const ask = (target: string, method = 'GET') =>
	exchangeText(gateway.url, `${method} ${target} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n`);

const paths: [string, string][] = [
	[path, query],
	['/api/company_contacts.changes', query.replace('company_id', 'limit')],
];

test.each(paths)('%s is passed on unchanged, with its headers', async (path, query) => {
	const [direct, passed] = [await fetch(`${service.url}${path}${query}`), await get(path + query)];
	expect(passed.status).toBe(200);
	expect(await passed.text()).toBe(await direct.text());
	for (const name of [
		'etag',
		'cache-control',
		'content-type',
		'referrer-policy',
		'x-content-type-options',
		'ratelimit-limit',
	]) {
		expect(passed.headers.get(name)).toBe(direct.headers.get(name));
	}
	expect((await get(path + query, { headers: { 'if-none-match': String(passed.headers.get('etag')) } })).status).toBe(
		304,
	);
	expect((await get(path)).status).toBe(401);
	expect((await get(path, { method: 'POST' })).status).toBe(405);
});

test.each(['/openapi.json', '/docs/scalar.js', '/docs'])('%s is passed on unchanged and compressed', async (target) => {
	const headers = { 'accept-encoding': 'br' };
	const [direct, passed] = [await fetch(service.url + target, { headers }), await get(target, { headers })];
	expect([passed.status, passed.headers.get('content-encoding')]).toEqual([200, 'br']);
	expect(await passed.text()).toBe(await direct.text());
	for (const name of ['etag', 'cache-control', 'content-type', 'content-security-policy', 'x-content-type-options']) {
		expect(passed.headers.get(name)).toBe(direct.headers.get(name));
	}
});

test('/ redirects to the API reference', async () => {
	const passed = await get('/', { redirect: 'manual' });
	expect([passed.status, passed.headers.get('location')]).toEqual([302, '/docs']);
	expect((await get('/')).url).toBe(`${gateway.url}/docs`);
});

describe('only the public paths respond', () => {
	test.each([
		'/health/live',
		'/health/ready',
		'/metrics',
		'/api/personal_contacts',
		`${path}/`,
		`${path}x`,
		'/docs/../metrics',
		'/docs/%2e%2e/metrics',
		'/docs/..%2fmetrics',
		'/docs//../../metrics',
		'/docs;/../metrics',
		'/metrics%00/docs',
		'/bitrix24/events',
	])('%s does not', async (target) => {
		const response = await ask(target);
		expect(response).toMatch(/^HTTP\/1.1 (404|400) /);
		const body = JSON.parse(response.slice(response.indexOf('\r\n\r\n') + 4)) as ProblemBody;
		expect(Object.keys(body)).toEqual(['type', 'title', 'status', 'detail', 'code', 'request_id']);
		expect(response).toMatch(/\r\nContent-Type: application\/problem\+json\r\n/i);
		expect(response).toMatch(/\r\nCache-Control: no-store\r\n/i);
		expect(response).toContain(`X-Request-Id: ${body.request_id}\r\n`);
		// Metrics of a service would be recognisable by their format.
		expect(response).not.toContain('# HELP');
	});

	test('a request that the gateway refuses never reaches the service', async () => {
		const before = service.output().length;
		await ask('/metrics?seen=no');
		expect(service.output().slice(before)).toBe('');
	});
});

test('the gateway drops the headers of a client about tracing, its identity and its origin', async () => {
	const seen: IncomingHttpHeaders[] = [];
	const upstream = createServer((request, response) => {
		seen.push(request.headers);
		response.end();
	}).listen(0, '127.0.0.1');
	await once(upstream, 'listening');
	const nginx = await startNginx(gatewayConfig(`127.0.0.1:${(upstream.address() as AddressInfo).port}`));
	const headers = {
		traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00',
		tracestate: 'a=b',
		baggage: 'a=b',
		referer: 'http://a/',
		forwarded: 'for=203.0.113.1',
		'x-other': 'passed',
	};
	await fetch(nginx.url + path, { headers });
	expect(Object.keys(seen[0] ?? {})).toContain('x-other');
	expect(Object.keys(headers).filter((name) => seen[0]?.[name] !== undefined)).toEqual(['x-other']);
	await nginx.stop('SIGTERM');
	upstream.close();
});

test('the access log has the status and the time of the service beside those of the gateway', async () => {
	const before = gateway.accessLog().length;
	await get(path + query);
	await get(path);
	await get('/metrics');
	const lines = () => gateway.accessLog().slice(before).split('\n').filter(Boolean);
	await expect.poll(() => lines().length).toBe(3);
	const seconds = expect.stringMatching(/^\d+\.\d{3}$/);
	expect(lines().map((line) => JSON.parse(line))).toMatchObject([
		{ path, status: 200, upstream_status: '200', upstream_seconds: seconds },
		{ path, status: 401, upstream_status: '401', upstream_seconds: seconds },
		{ path: 'other', status: 404, upstream_status: '', upstream_seconds: '' },
	]);
});

// It leaves the failure bucket of this address empty: the tests behind it get 429 for a wrong key.
test('the failure limit sees one client, whatever X-Forwarded-For that client forges', async () => {
	const responses = await Promise.all(
		Array.from({ length: 300 }, (_, index) =>
			get(`${path}?project=first&api_key=wrong`, {
				headers: { 'x-forwarded-for': `203.0.113.${index % 250}`, forwarded: `for=203.0.113.${index % 250}` },
			}),
		),
	);
	const refused = responses.filter((response) => response.status === 429).length;
	expect(refused).toBeGreaterThan(20);
	expect((await get(path + query)).status).toBe(200);
});

test('no log of nginx, the service or PostgreSQL has an API key', async () => {
	for (const target of [
		path + query,
		`/unknown${query}`,
		`//${query}`,
		`/docs/x${query}`,
		`/%${query}`,
		`${path}?api%5Fkey=${canary}`,
	]) {
		for (const method of ['GET', 'POST', 'TRACE', 'NONSENSE']) await ask(target, method);
	}
	await get(`/${query}`, { headers: { referer: `http://a/${query}`, 'user-agent': canary, cookie: canary } });
	const heard = gateway.accessLog() + gateway.errorLog() + gateway.output() + service.output();
	expect(heard.length).toBeGreaterThan(10_000);
	expect(heard).not.toContain('canary');
});
