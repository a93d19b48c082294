import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { startProcess } from './process.js';
import { startTcpProxy } from './tcp-proxy.js';

test('a proxy that closes while its clients are killed leaves no connection to the server', async () => {
	const open = new Set<Socket>();
	const server = createServer((socket) => {
		open.add(socket.resume().on('error', () => undefined));
		socket.on('close', () => open.delete(socket));
	}).listen(0, '127.0.0.1');
	onTestFinished(() => void server.close());
	await once(server, 'listening');
	const { port } = server.address() as { port: number };
	const proxy = await startTcpProxy(`tcp://127.0.0.1:${port}`);
	const program = `
		const { connect } = require('node:net');
		for (let n = 0; n < 500; n++) connect(${new URL(proxy.through('tcp://127.0.0.1:1')).port}, '127.0.0.1').resume();`;
	const clients = startProcess(process.execPath, ['--eval', program]);
	onTestFinished(() => clients.stop('SIGKILL'));
	await expect.poll(() => open.size).toBe(500);
	await clients.stop('SIGKILL');
	proxy.close();
	await expect.poll(() => open.size).toBe(0);
});
