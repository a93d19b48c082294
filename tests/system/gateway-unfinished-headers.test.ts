import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { gatewayConfig } from '@contacts/testing/gateway.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import { childrenOf } from '@contacts/testing/proc.js';
import { exchangeText } from '@contacts/testing/raw-http.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { afterAll, beforeAll, expect, test } from 'vitest';

const connections = 4_500;
const begun = 'GET /api/company_contacts.list?project=first HTTP/1.1\r\nHost: a\r\n';
/** Two headers that fill nearly all of the buffers that nginx allocates for one connection. */
const largest = begun + `X: ${'x'.repeat(7_900)}\r\n`.repeat(2);
let service: Server;
let gateway: RunningNginx;
const sockets: Socket[] = [];

beforeAll(async () => {
	service = createServer((_request, response) => response.end('served')).listen(0, '127.0.0.1');
	await once(service, 'listening');
	const config = gatewayConfig(`127.0.0.1:${(service.address() as AddressInfo).port}`);
	// The connections of this test must not be closed before the last one is open, however slow the machine is.
	expect(config).toMatch(/client_header_timeout \d+s;/);
	gateway = await startNginx(config.replace(/client_header_timeout \d+s;/, 'client_header_timeout 600s;'));
});
afterAll(async () => {
	for (const socket of sockets) socket.destroy();
	await gateway?.stop('SIGTERM');
	service?.close();
});

/** Opens a connection from another address than that of the other clients, and sends these bytes. */
async function begin(bytes: string): Promise<void> {
	const socket = connect({ port: Number(new URL(gateway.url).port), host: '127.0.0.1', localAddress: '127.0.0.2' });
	sockets.push(socket.on('error', () => undefined).resume());
	await once(socket, 'connect');
	socket.write(bytes);
}

const openFiles = () => readdirSync(`/proc/${childrenOf(gateway.pid)[0]}/fd`).length;
const get = (path: string) => exchangeText(gateway.url, `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);

test('4,500 unfinished headers from one address fit into the memory of the gateway, and clients of another address are served', async () => {
	for (let index = 0; index < connections; index++) await begin(largest);
	await waitUntil(() => openFiles() >= connections, {
		timeoutMs: 60_000,
		message: () => `${openFiles()} files for ${connections} connections are open`,
	});
	const responses = await Promise.all(Array.from({ length: 300 }, () => get('/api/company_contacts.list')));
	expect(
		responses.filter((response) => !(response.startsWith('HTTP/1.1 200 ') && response.endsWith('served'))),
	).toEqual([]);
	// None was closed for them.
	expect(sockets.filter((socket) => socket.closed)).toEqual([]);
	// Two buffers of 8 KiB and 11 KiB for the connection and its request, for each; 512 MiB in all.
	expect(gateway.memory()).toBeLessThan(200);
});
