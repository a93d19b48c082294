import { connect } from 'node:net';

/** Whether something listens on this port of 127.0.0.1. */
export function accepts(port: number): Promise<boolean> {
	return new Promise((resolve) => {
		const socket = connect({ port, host: '127.0.0.1' });
		socket.on('connect', () => socket.destroy()).on('error', () => resolve(false));
		socket.on('close', (failed) => resolve(!failed));
	});
}
