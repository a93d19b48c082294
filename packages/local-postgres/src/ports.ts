import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

/**
 * A TCP port of 127.0.0.1 that is free at the moment. It is none of those that the system gives to connections (on Linux from 32768
 * on), so none of them takes it before it is used. It is above 10080, which browsers and `fetch` refuse.
 */
export async function freePort(): Promise<number> {
	for (;;) {
		const port = randomInt(10_081, 32_768);
		const server = createServer().listen(port, '127.0.0.1');
		const isFree = await once(server, 'listening').then(
			() => true,
			(error: NodeJS.ErrnoException) => {
				if (error.code !== 'EADDRINUSE') throw error;
				return false;
			},
		);
		if (!isFree) continue;
		server.close();
		await once(server, 'close');
		return port;
	}
}

/** Whether something listens on this port of 127.0.0.1. */
export function accepts(port: number): Promise<boolean> {
	return new Promise((resolve) => {
		const socket = connect({ port, host: '127.0.0.1' });
		socket.on('connect', () => socket.destroy()).on('error', () => resolve(false));
		socket.on('close', (failed) => resolve(!failed));
	});
}
