import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { addProject } from '@contacts/testing/app.js';
import { startServiceProcess } from '@contacts/testing/service-process.js';
import type { ServiceProcess } from '@contacts/testing/services.js';
import { database as db, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';

const canary = 'canary-key-7f3b';
const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const parentId = '00f067aa0ba902b7';
const query = `?project=good&api_key=${canary}`;

test.beforeAll(async () => {
	await addProject(db.sql, 'good', canary);
});

interface Collector {
	url: string;
	requests: { path: string; body: Buffer }[];
}

/** A collector that receives OTLP over HTTP. */
async function startCollector(status = 200): Promise<Collector> {
	const requests: Collector['requests'] = [];
	const server = createServer(async (request, response) => {
		const body = await buffer(request);
		const plain = request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
		requests.push({ path: request.url ?? '', body: plain });
		response.writeHead(status, { 'content-type': 'application/x-protobuf' }).end();
	}).listen(0, '127.0.0.1');
	await once(server, 'listening');
	onTestFinished(() => {
		server.closeAllConnections();
		server.close();
	});
	return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

const start = (name: ServiceName, environment: Record<string, string>) =>
	startServiceProcess(name, { DATABASE_URL: db.url, OTEL_BSP_SCHEDULE_DELAY: '100', ...environment });

/** Stops it gracefully, so that it exports the remaining spans. */
async function stop(service: ServiceProcess): Promise<void> {
	service.kill('SIGTERM');
	expect(await service.exit).toBe(0);
	expect(service.stderr()).toBe('');
}

/** Whether the export has this trace or span ID. The protocol encodes IDs as bytes. */
const has = (bytes: Buffer, identifier: unknown) => bytes.includes(Buffer.from(String(identifier), 'hex'));

// An internal service continues its caller's trace. A public one does not trust its caller.
test.each<[ServiceName, string, string, boolean]>([
	['personal-contacts', 'POST', '/api/personal_contacts', true],
	['company-contacts', 'GET', '/api/company_contacts.list', false],
])(
	'%s exports a span for each request, and no key in any; the trace is that of its caller only inside',
	async (name, method, path, continues) => {
		const collector = await startCollector();
		const service = start(name, {
			OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
			OTEL_SERVICE_NAME: 'renamed',
			// Containers pass on what .env lacks as empty, which counts as not set.
			OTEL_TRACES_EXPORTER: '',
			LOG_LEVEL: 'trace',
		});
		const url = await service.listening();
		const init =
			method === 'POST' ? { method, headers: { 'content-type': 'application/json' }, body: '{"chat_id":1}' } : {};
		const encoded = canary.replace('c', '%63');
		const base64 = Buffer.from(canary).toString('base64');
		const ids: string[] = [];
		for (const each of [
			path + query,
			`${path}?project=good&api_key=${encoded}`,
			`${path}?project=good&api_key=${encodeURIComponent(base64)}`,
			`${path}?project=wrong&api_key=${canary}`,
			`${path}?project=good&api_key=${canary}&company_id=${canary}`,
			`/unknown/${canary}?api_key=${canary}`,
			`/metrics?api_key=${canary}`,
			`/%00?api_key=${canary}`,
		]) {
			const traceparent = `00-${traceId}-${parentId}-01`;
			const headers = { referer: url + each, traceparent, tracestate: `a=${canary}`, baggage: `key=${canary}` };
			const response = await fetch(url + each, { ...init, headers: { ...init.headers, ...headers } });
			await response.text();
			ids.push(String(response.headers.get('x-request-id')));
		}
		await stop(service);

		expect(new Set(collector.requests.map((request) => request.path))).toEqual(new Set(['/v1/traces']));
		const bytes = Buffer.concat(collector.requests.map(({ body }) => body));
		const text = bytes.toString('latin1');
		for (const expected of [`${method} ${path}`, 'http.route', 'http.response.status_code', 'renamed', String(ids[0])])
			expect(text).toContain(expected);
		const forms = [canary, encoded, encodeURIComponent(canary), base64, 'canary', 'api_key', 'url.path'];
		for (const form of [...forms, Buffer.from(canary).toString('hex')])
			expect(text.toLowerCase()).not.toContain(form.toLowerCase());
		expect(service.output()).not.toContain(canary);
		// Health checks and metrics, which are requested every few seconds, are not traced.
		expect(text).not.toContain('/metrics');

		const line = service.log().find((each) => each.request_id === ids[0]);
		expect([has(bytes, traceId), has(bytes, parentId)]).toEqual([continues, continues]);
		expect(line?.trace_id === traceId).toBe(continues);
		expect(has(bytes, line?.trace_id)).toBe(true);
	},
);

test('a collector that is down or refuses data is logged once, and requests still succeed', async () => {
	const refusing = await startCollector(400);
	for (const endpoint of [refusing.url, 'http://127.0.0.1:1']) {
		const settings = { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_TIMEOUT: '300' };
		const service = start('company-contacts', settings);
		const list = `${await service.listening()}/api/company_contacts.list${query}`;
		const lines = () => service.log().filter(({ msg }) => msg === 'traces cannot be exported');
		await expect.poll(async () => ((await fetch(list)).status === 200 ? lines() : [])).toHaveLength(1);
		expect((await fetch(list)).status).toBe(200);
		await stop(service);
		expect(lines()).toHaveLength(1);
	}
});

test('traces nothing when a variable says so', async () => {
	const collector = await startCollector();
	const service = start('company-contacts', {
		OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
		OTEL_SDK_DISABLED: 'true',
	});
	await (await fetch(`${await service.listening()}/api/company_contacts.list${query}`)).text();
	await stop(service);
	expect(service.log().find(({ msg }) => msg === 'request')).not.toHaveProperty('trace_id');
	expect(collector.requests).toEqual([]);
});
