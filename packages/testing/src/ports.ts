import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';

/** A TCP port of 127.0.0.1 that is free at the moment. */
export async function freePort(): Promise<number> {
	const server = createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address() as AddressInfo;
	server.close();
	await once(server, 'close');
	return port;
}

/** Whether something listens on this port of 127.0.0.1. */
export function accepts(port: number): Promise<boolean> {
	return new Promise((resolve) => {
		const socket = connect({ port, host: '127.0.0.1' });
		socket.on('connect', () => socket.destroy()).on('error', () => resolve(false));
		socket.on('close', (failed) => resolve(!failed));
	});
}
