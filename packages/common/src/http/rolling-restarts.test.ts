import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createLogger } from '../observability/logger.js';
import { createServer, type Server } from './server.js';

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;

/** A server whose slow responses wait for `release`, and one client that sends these requests at once. */
async function pipelined(paths: string[]) {
	const server = await createServer({ logger: createLogger({ name: 'connections', level: 'silent' }) });
	let release: () => void = () => undefined;
	const released = new Promise<void>((resolve) => {
		release = resolve;
	});
	let waiting = 0;
	server.get('/fast', async () => 'fast');
	server.get('/slow', async () => {
		waiting++;
		await released;
		return 'slow';
	});
	await server.listen({ host: '127.0.0.1', port: 0 });
	onTestFinished(() => server.close());
	const accepted = once(server.server, 'connection') as Promise<[Socket]>;
	const socket = connect((server.server.address() as AddressInfo).port, '127.0.0.1');
	onTestFinished(() => void socket.destroy());
	let text = '';
	socket.setEncoding('latin1').on('data', (part) => {
		text += part;
	});
	const closed = once(socket, 'close');
	socket.write(paths.map(get).join(''));
	await expect.poll(() => waiting).toBe(paths.filter((path) => path === '/slow').length);
	const [connection] = await accepted;
	return {
		socket,
		/** The same connection in the server. */
		connection,
		closed,
		release,
		/** The last word of each response, with `close` if it closes the connection. */
		responses: () =>
			text
				.split('HTTP/1.1 200 OK')
				.slice(1)
				.map((part) => `${/(\w+)$/.exec(part)?.[1]}${/^connection: close/im.test(part) ? ' close' : ''}`),
		server,
	};
}

test('a stop lets a pipelined request finish after the response to the one before it was sent', async () => {
	const { server, closed, release, responses } = await pipelined(['/fast', '/slow']);
	await expect.poll(responses).toEqual(['fast']);
	const stopped = server.close();
	await expect.poll(() => server.server.listening).toBe(false);
	release();
	await Promise.all([closed, stopped]);
	expect(responses()).toEqual(['fast', 'slow close']);
});

test('a stop lets all pipelined requests that were received before it finish, and serves no later one', async () => {
	const { server, socket, connection, closed, release, responses } = await pipelined(['/slow', '/fast', '/slow']);
	const stopped = server.close();
	await expect.poll(() => server.server.listening).toBe(false);
	socket.write(get('/fast'));
	await expect.poll(() => connection.bytesRead).toBe(get('/slow').length * 4);
	release();
	await Promise.all([closed, stopped]);
	expect(responses()).toEqual(['slow', 'fast', 'slow close']);
});

test('a stop waits for the rest of a request that has begun to arrive on a kept connection', async () => {
	const { server, socket, connection, closed, responses } = await pipelined(['/fast']);
	await expect.poll(responses).toEqual(['fast']);
	const request = get('/fast');
	socket.write(request.slice(0, -2));
	await expect.poll(() => connection.bytesRead).toBe(2 * request.length - 2);
	const stopped = server.close();
	await expect.poll(() => server.server.listening).toBe(false);
	socket.write(request.slice(-2));
	await Promise.all([closed, stopped]);
	expect(responses()).toEqual(['fast', 'fast close']);
});

test.each([
	['whose body has arrived since', 'none', '{}'],
	['whose body is still arriving', 'none', '{'],
	['whose body never arrives', 'none', ''],
	['whose body was too large', 'read', `5000\r\n${'x'.repeat(0x5000)}\r\n0\r\n\r\n`],
])('a stop closes at once the connection of a rejected request %s', async (_, path, body) => {
	const server = await createServer({ logger: createLogger({ name: 'connections', level: 'silent' }) });
	server.post('/read', async () => 'read');
	await server.listen({ host: '127.0.0.1', port: 0 });
	onTestFinished(() => server.close());
	const socket = connect((server.server.address() as AddressInfo).port, '127.0.0.1');
	onTestFinished(() => void socket.destroy());
	const closed = once(socket, 'close');
	const received = once(server.server, 'request') as Promise<[IncomingMessage]>;
	const size = path === 'none' ? 'Content-Length: 2' : 'Transfer-Encoding: chunked';
	socket.write(`POST /${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n${size}\r\n\r\n`);
	const [request] = await received;
	const responded = once(socket, 'data');
	if (path === 'none') await responded;
	socket.write(body);
	await responded;
	await expect.poll(() => request.socket.bytesRead).toBe(socket.bytesWritten);
	const stopped = server.close();
	await Promise.all([closed, stopped]);
});

describe('a stop serves a connection that a client has established before it', () => {
	/** Ten clients in another thread, while this one does nothing. They send their requests, or have only connected so far. */
	async function clientsOf(server: Server, what: 'sent' | 'connected') {
		await server.listen({ host: '127.0.0.1', port: 0 });
		const ready = new Int32Array(new SharedArrayBuffer(8));
		const source = `
			const { connect } = require('node:net');
			const { workerData: { ready, port, what, text }, parentPort } = require('node:worker_threads');
			const received = [];
			for (let n = 0; n < 10; n++) {
				const socket = connect(port, '127.0.0.1', () => {
					if (what === 'sent') socket.write(text);
					Atomics.add(ready, 0, 1);
					Atomics.notify(ready, 0);
				});
				let response = '';
				socket.on('data', (data) => (response += data)).on('error', (error) => (response += error.code));
				socket.on('close', () => received.push(response) === 10 && parentPort.postMessage(received));
				if (what === 'connected') parentPort.on('message', () => socket.write(text));
			}`;
		const { port } = server.server.address() as AddressInfo;
		const clients = new Worker(source, { eval: true, workerData: { ready, port, what, text: get('/fast') } });
		onTestFinished(async () => void (await clients.terminate()));
		const received = once(clients, 'message') as Promise<[string[]]>;
		return {
			clients,
			received,
			wait: () => {
				for (let n = 0; n < 10; n = Atomics.load(ready, 0)) Atomics.wait(ready, 0, n, 1000);
			},
		};
	}

	test.each([
		['although the process has not accepted it yet', 'sent'],
		['although its request arrives only after that', 'connected'],
	] as const)('%s', async (_, what) => {
		const server = await createServer({ logger: createLogger({ name: 'connections', level: 'silent' }) });
		server.get('/fast', async () => 'fast');
		const { clients, received, wait } = await clientsOf(server, what);
		wait();
		const stopped = server.close();
		await expect.poll(() => server.server.listening).toBe(false);
		clients.postMessage('send');
		const [responses] = await received;
		await stopped;
		expect(responses.map((response) => response.slice(0, 15))).toEqual(Array(10).fill('HTTP/1.1 200 OK'));
	});
});

test('a stop closes a connection on which no request arrives within a second', async () => {
	const server = await createServer({ logger: createLogger({ name: 'connections', level: 'silent' }) });
	await server.listen({ host: '127.0.0.1', port: 0 });
	const socket = connect((server.server.address() as AddressInfo).port, '127.0.0.1');
	await once(server.server, 'connection');
	const closed = once(socket.resume(), 'close');
	await Promise.all([server.close(), closed]);
});
