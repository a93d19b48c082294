import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { freePort } from '@contacts/local-postgres/ports.js';
import { documented, responseOf } from '@contacts/testing/documented.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { botGatewayConfig, gatewayConfig } from '@contacts/testing/gateway.js';
import { startNameServer } from '@contacts/testing/name-server.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import { childrenOf } from '@contacts/testing/proc.js';
import { exchangeText } from '@contacts/testing/raw-http.js';
import type { OpenAPIV3_1 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';

const canary = 'canary-4711';
const path = '/api/company_contacts.list';
const query = `?project=first&api_key=${canary}`;
const target = path + query;
const document = readFileSync(new URL('../../docs/openapi/company-contacts.json', import.meta.url), 'utf8');
const reference = documented(JSON.parse(document) as OpenAPIV3_1.Document, '/api/company_contacts.list');

/** Accepts connections and never sends anything. */
let silent: Server;
const connections = new Set<Socket>();
/** With the gateway's own time limits. */
let gateway: RunningNginx;
/** With short ones. */
let impatient: RunningNginx;

beforeAll(async () => {
	const port = await freePort();
	silent = createServer((socket) => connections.add(socket.on('error', () => undefined)));
	await new Promise<void>((resolve) => silent.listen(port, '127.0.0.1', resolve));
	const config = gatewayConfig(`127.0.0.1:${port}`, { events: `127.0.0.1:${port}` });
	gateway = await startNginx(config);
	const limits = /(client_header_timeout|client_body_timeout|proxy_read_timeout) \d+s;/g;
	expect(config.match(limits)).toHaveLength(3);
	impatient = await startNginx(config.replaceAll(limits, '$1 200ms;'));
});
afterAll(async () => {
	for (const socket of connections) socket.destroy();
	silent?.close();
	await gateway?.stop();
	await impatient?.stop();
});

/** Also that the API reference describes it. @returns its header fields */
async function expectDocumentedProblem(received: string, status: number, code: string): Promise<Headers> {
	const response = responseOf(received);
	await reference.expect(response.clone());
	await expectProblem(response, status, code);
	return response.headers;
}

describe('an error of the gateway itself is a problem like all others', () => {
	const rest = 'Host: a\r\nConnection: close\r\n';
	const get = `GET ${target} HTTP/1.1\r\n${rest}\r\n`;

	const long = 'x'.repeat(9000);
	test.each<[string, string, number, string, string?]>([
		['a bad request line', 'GARBAGE\r\n\r\n', 400, 'invalid_query'],
		['malformed percent-encoding', `GET /%zz?api_key=${canary} HTTP/1.1\r\n${rest}\r\n`, 400, 'invalid_query'],
		['a header of more than 8 KiB', `GET / HTTP/1.1\r\nHost: a\r\nX: ${long}\r\n\r\n`, 431, 'payload_too_large'],
		['a URL of more than 8 KiB', `GET /?api_key=${canary}${long} HTTP/1.1\r\n\r\n`, 431, 'payload_too_large'],
		['a body', `GET ${target} HTTP/1.1\r\n${rest}Content-Length: 900\r\n\r\n`, 413, 'payload_too_large'],
		[
			'a large body of unknown length',
			`GET ${target} HTTP/1.1\r\n${rest}Transfer-Encoding: chunked\r\n\r\n1388\r\n${'x'.repeat(5000)}\r\n0\r\n\r\n`,
			413,
			'payload_too_large',
		],
		[
			'another method, with a large body',
			`POST ${path} HTTP/1.1\r\n${rest}Content-Length: 5000\r\n\r\n${'x'.repeat(5000)}`,
			405,
			'method_not_allowed',
			'GET',
		],
		[
			'another method, with a body that does not arrive',
			`POST ${path} HTTP/1.1\r\n${rest}Content-Length: 10\r\n\r\n{`,
			405,
			'method_not_allowed',
			'GET',
		],
		['OPTIONS', `OPTIONS ${target} HTTP/1.1\r\n${rest}\r\n`, 405, 'method_not_allowed', 'GET'],
		['TRACE', `TRACE ${target} HTTP/1.1\r\n${rest}\r\n`, 405, 'method_not_allowed', 'GET'],
	])('%s', async (_, text, status, code, allow) => {
		const headers = await expectDocumentedProblem(await exchangeText(gateway.url, text), status, code);
		expect(headers.get('allow') ?? undefined).toBe(allow);
	});

	const expectOverloaded = async (received: string) => {
		const headers = await expectDocumentedProblem(received, 503, 'overloaded');
		expect(headers.get('retry-after')).toBe('1');
	};

	test('for a service that does not respond in time', async () => {
		await expectOverloaded(await exchangeText(impatient.url, get));
	});

	test('for a service that is down, and no log has anything of the request', async () => {
		const alone = await startNginx(gatewayConfig('127.0.0.1:1'));
		await expectOverloaded(await exchangeText(alone.url, get));
		expect(alone.errorLog() + alone.accessLog() + alone.output()).not.toContain('canary');
		expect(JSON.parse(alone.accessLog())).toMatchObject({ status: 503, upstream_status: '502 : 502' });
		await alone.stop();
	});

	test('for a gateway that can open no more connections, and no log has anything of the request', async () => {
		const exhausted = await startNginx(gatewayConfig(new URL(gateway.url).host));
		// Once it has served a request, its worker has opened all files that it keeps, and closed earlier connections.
		await exchangeText(exhausted.url, `GET /none HTTP/1.1\r\n${rest}\r\n`);
		const [worker] = childrenOf(exhausted.pid);
		const open = readdirSync(`/proc/${worker}/fd`).map(Number);
		const [, second] = Array.from({ length: open.length + 2 }, (_, fd) => fd).filter((fd) => !open.includes(fd));
		// The client's connection gets the first free file descriptor, and there is no second one.
		execFileSync('prlimit', ['--pid', String(worker), `--nofile=${second}:${second}`]);
		await expectOverloaded(await exchangeText(exhausted.url, get));
		expect(exhausted.errorLog() + exhausted.accessLog() + exhausted.output()).not.toContain('canary');
		await exhausted.stop();
	});

	test('for a client with too many connections', async () => {
		const crowded = await startNginx(gatewayConfig(new URL(gateway.url).host, { connectionsPerClient: 1 }));
		const waiting = connect({ port: Number(new URL(crowded.url).port), host: '127.0.0.1' });
		const before = connections.size;
		waiting.write(`GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`);
		await expect.poll(() => connections.size).toBeGreaterThan(before);
		await expectDocumentedProblem(await exchangeText(crowded.url, get), 429, 'rate_limited');
		waiting.destroy();
		await crowded.stop('SIGTERM');
	});

	// The bot's gateway has no limit of requests (429). With 418 and 419 the public one leads to other locations.
	test.each([
		['default.conf.template', [418, 419, 429]],
		['bot.conf.template', []],
	])('nginx shows its own error page for no status that it can set itself (%s)', (template, more) => {
		const read = (name: string) => readFileSync(new URL(`../../gateway/${name}`, import.meta.url), 'utf8');
		const covered = [...(read(template) + read('problems.conf')).matchAll(/^\s*error_page ([\d ]+)/gm)].flatMap(
			([, list = '']) => list.trim().split(/ +/),
		);
		// From ngx_http_special_response.c, without redirections, what only other modules set (401 to 403, 409, 412, 416, 507), and 408, which it never sends.
		const own = [400, 404, 405, 411, 413, 414, 421, 431, 494, 495, 496, 497, 500, 501, 502, 503, 504, 505, ...more];
		// A request that is sent again has pages of its own.
		expect([...new Set(covered.map(Number))].toSorted((a, b) => a - b)).toEqual(own.toSorted((a, b) => a - b));
	});
});

test.each([
	['headers', `GET ${target} HTTP/1.1\r\nHost: a\r\n`],
	['an event', 'POST /bitrix24/events HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{'],
])('the gateway disconnects a client that sends %s too slowly', async (_, text) => {
	expect(await exchangeText(impatient.url, text)).toBe('');
});

describe('the gateway of the bot', () => {
	const upsert = `POST /api/personal_contacts${query} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n`;
	const post = (size: number) => `${upsert}Content-Length: ${size}\r\n\r\n${'x'.repeat(size)}`;
	const send = async (nginx: RunningNginx, text: string) => responseOf(await exchangeText(nginx.url, text));

	test('sends an upsert that gets no response to no other replica, and says when to repeat it', async () => {
		const { port } = silent.address() as AddressInfo;
		const names = await startNameServer(['127.0.0.1', '127.0.0.1']);
		onTestFinished(() => names.close());
		const config = botGatewayConfig(`personal-contacts.test:${port}`, { resolver: names.address });
		const nginx = await startNginx(`proxy_read_timeout 200ms; ${config}`);
		onTestFinished(() => nginx.stop());
		const before = connections.size;
		const response = await send(nginx, post(20));
		await expectProblem(response, 502, 'internal_error');
		expect(response.headers.get('retry-after')).toBe('6');
		expect(connections.size - before).toBe(1);
		await expect.poll(() => nginx.accessLog()).toMatch(/\n$/);
		const line = { path: '/api/personal_contacts', status: 502, upstream_status: '504' };
		expect(JSON.parse(nginx.accessLog())).toMatchObject(line);
		expect(nginx.errorLog() + nginx.accessLog() + nginx.output()).not.toContain('canary');
	});

	test('sends an upsert to another replica that it could not connect to, and refuses what is no HTTP or far too large', async () => {
		const port = await freePort();
		const replica = createHttpServer((request, response) => {
			response.setHeader('x-request-id', 'of the service');
			request.resume().on('end', () => response.end(`${request.method} ${request.url}`));
		}).listen(port, '127.0.0.2');
		onTestFinished(() => void replica.close());
		const names = await startNameServer(['127.0.0.1', '127.0.0.2']);
		onTestFinished(() => names.close());
		const nginx = await startNginx(botGatewayConfig(`personal-contacts.test:${port}`, { resolver: names.address }));
		onTestFinished(() => nginx.stop());
		for (let n = 0; n < 10; n++) {
			const response = await send(nginx, post(20_000));
			expect([response.status, await response.text()]).toEqual([200, `POST /api/personal_contacts${query}`]);
		}
		expect(nginx.accessLog()).toBe('');
		await expectProblem(await send(nginx, post(70_000)), 413, 'payload_too_large');
		await expectProblem(await send(nginx, 'GARBAGE\r\n\r\n'), 400, 'invalid_query');
		const trace = await send(nginx, `${upsert.replace('POST', 'TRACE')}\r\n`);
		await expectProblem(trace, 405, 'method_not_allowed');
		expect(trace.headers.get('allow')).toBe('POST');
	});
});
