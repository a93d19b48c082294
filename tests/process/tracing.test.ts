import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { addProject } from '@contacts/testing/app.js';
import { startServiceProcess } from '@contacts/testing/service-process.js';
import type { ServiceProcess } from '@contacts/testing/services.js';
import { database as db, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';

const exampleSettings = readFileSync(new URL('../../.env.example', import.meta.url), 'utf8');
const canary = 'canary-key-7f3b';
const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const parentId = '00f067aa0ba902b7';

test.beforeAll(async () => {
	await addProject(db.sql, 'good', canary);
});

test.each([
	['OpenTelemetry is not loaded by default', {}, 0],
	['OpenTelemetry is loaded when a variable requests it', { OTEL_TRACES_EXPORTER: 'otlp' }, 1],
])('%s', async (_, environment, least) => {
	const program = `
		const { readTracing } = await import('${new URL('../../packages/common/dist/process/config.js', import.meta.url)}');
		const { startTracing } = await import('${new URL('../../packages/common/dist/observability/tracing.js', import.meta.url)}');
		const { createRequire } = await import('node:module');
		if (readTracing(${JSON.stringify(environment)})) await startTracing('test', 'internal', console);
		const loaded = Object.keys(createRequire(import.meta.url).cache);
		process.stdout.write(String(loaded.filter((path) => path.includes('opentelemetry')).length));
		process.exit();`;
	const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program]);
	expect(Math.min(Number(stdout), 1)).toBe(least);
});

interface Collector {
	url: string;
	requests: { path: string; headers: Record<string, unknown>; body: Buffer }[];
}

/** A collector that receives OTLP over HTTP. */
async function startCollector(status = 200): Promise<Collector> {
	const requests: Collector['requests'] = [];
	const server = createServer(async (request, response) => {
		const body = await buffer(request);
		const plain = request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
		requests.push({ path: request.url ?? '', headers: request.headers, body: plain });
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

describe.each<[ServiceName, string, string]>([
	['personal-contacts', 'POST', '/api/personal_contacts'],
	['company-contacts', 'GET', '/api/company_contacts.list'],
])('%s', (name, method, path) => {
	const query = `?project=good&api_key=${canary}`;
	const init =
		method === 'POST' ? { method, headers: { 'content-type': 'application/json' }, body: '{"chat_id":1}' } : {};

	test('exports a span for each request, and no key in any', async () => {
		const collector = await startCollector();
		const service = start(name, { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, LOG_LEVEL: 'trace' });
		const url = await service.listening();
		const encoded = canary.replace('c', '%63');
		const base64 = Buffer.from(canary).toString('base64');
		expect((await fetch(url + path + query, init)).status).toBe(200);
		for (const each of [
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
			await (await fetch(url + each, { ...init, headers: { ...init.headers, ...headers } })).text();
		}
		await stop(service);

		expect(collector.requests.length).toBeGreaterThan(0);
		expect(new Set(collector.requests.map((request) => request.path))).toEqual(new Set(['/v1/traces']));
		const bytes = Buffer.concat(collector.requests.map(({ body }) => body)).toString('latin1');
		for (const expected of [`${method} ${path}`, 'http.route', 'http.response.status_code', 'request_id', name])
			expect(bytes).toContain(expected);
		const forms = [canary, encoded, encodeURIComponent(canary), base64, 'canary', 'api_key', 'url.path'];
		for (const form of [...forms, Buffer.from(canary).toString('hex')])
			expect(bytes.toLowerCase()).not.toContain(form.toLowerCase());
		expect(service.output()).not.toContain(canary);
		// Health checks and metrics, which are requested every few seconds, are not traced.
		expect(bytes).not.toContain('/metrics');
	});

	/** Sends one request with this trace context. @returns the exported data and the log line */
	async function traced(traceparent: string) {
		const collector = await startCollector();
		const service = start(name, { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_SERVICE_NAME: 'renamed' });
		const url = await service.listening();
		const headers = { ...init.headers, traceparent, tracestate: 'vendor=text-of-the-client' };
		const response = await fetch(url + path + query, { ...init, headers });
		await response.text();
		await stop(service);
		const id = response.headers.get('x-request-id') ?? 'none';
		const bytes = Buffer.concat(collector.requests.map(({ body }) => body));
		return { id, bytes, line: service.log().find((each) => each.request_id === id) };
	}
	/** Whether the export has this trace or span ID. The protocol encodes IDs as bytes. */
	const has = (bytes: Buffer, identifier: unknown) => bytes.includes(Buffer.from(String(identifier), 'hex'));

	// An internal service continues its caller's trace. A public one does not trust its caller.
	if (name === 'personal-contacts') {
		test('continues the trace of its caller, and logs its ID', async () => {
			const { id, bytes, line } = await traced(`00-${traceId}-${parentId}-01`);
			expect([has(bytes, traceId), has(bytes, parentId)]).toEqual([true, true]);
			expect([bytes.includes('renamed'), bytes.includes(id)]).toEqual([true, true]);
			expect(line).toMatchObject({ msg: 'request', trace_id: traceId });
		});
	} else {
		test.each(['00', '01'])('begins its own trace, whatever the caller’s sampling flags: %s', async (flags) => {
			const { id, bytes, line } = await traced(`00-${traceId}-${parentId}-${flags}`);
			expect(bytes.includes(id)).toBe(true);
			expect([has(bytes, traceId), has(bytes, parentId)]).toEqual([false, false]);
			expect(bytes.includes('text-of-the-client')).toBe(false);
			expect(line?.trace_id).not.toBe(traceId);
			expect(has(bytes, line?.trace_id)).toBe(true);
		});
	}

	test('a collector that is down or refuses data is logged once, and requests still succeed', async () => {
		const refusing = await startCollector(400);
		for (const endpoint of [refusing.url, 'http://127.0.0.1:1']) {
			const service = start(name, { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_TIMEOUT: '300' });
			const url = await service.listening();
			const lines = () => service.log().filter(({ msg }) => msg === 'traces cannot be exported');
			await expect
				.poll(async () => ((await fetch(url + path + query, init)).status === 200 ? lines() : []), { timeout: 10_000 })
				.toHaveLength(1);
			expect((await fetch(url + path + query, init)).status).toBe(200);
			await stop(service);
			expect(lines()).toHaveLength(1);
		}
	});

	test('traces nothing by default', async () => {
		const collector = await startCollector();
		const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url };
		for (const environment of [
			{},
			{ ...endpoint, OTEL_SDK_DISABLED: 'true' },
			{ ...endpoint, OTEL_TRACES_EXPORTER: 'none' },
		]) {
			const service = start(name, environment);
			const url = await service.listening();
			await (await fetch(url + path + query, init)).text();
			await stop(service);
			expect(service.log().find(({ msg }) => msg === 'request')).not.toHaveProperty('trace_id');
		}
		expect(collector.requests).toEqual([]);
	});

	test('treats an empty variable as not set, because containers pass on what .env lacks as empty', async () => {
		const collector = await startCollector();
		const names = [...exampleSettings.matchAll(/^(OTEL_\w+)=$/gm)].map(([, name]) => String(name));
		expect(names.length).toBeGreaterThan(5);
		const nothing = Object.fromEntries(names.map((variable) => [variable, '']));
		const service = start(name, { ...nothing, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
		const url = await service.listening();
		await (await fetch(url + path + query, init)).text();
		await stop(service);
		expect(new Set(collector.requests.map((request) => request.path))).toEqual(new Set(['/v1/traces']));
	});

	test('refuses to start with a setting that it does not support', async () => {
		const service = start(name, {
			OTEL_TRACES_EXPORTER: 'zipkin',
			OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318',
			OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
		});
		expect(await service.exit).toBe(1);
		expect(service.stderr().trimEnd().split('\n')).toEqual([
			'OTEL_TRACES_EXPORTER is wrong: it must be otlp or none.',
			'OTEL_EXPORTER_OTLP_ENDPOINT is wrong: it must be a URL like http://collector:4318.',
			'OTEL_EXPORTER_OTLP_PROTOCOL is wrong: it must be http/protobuf.',
		]);
	});
});
