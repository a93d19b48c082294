import type { Socket } from 'node:net';
import fp from 'fastify-plugin';

/**
 * When the server stops, ends the idle connections at once and each other one after the answer that is under way.
 *
 * Node by itself takes a connection for idle as soon as its answer was handed over, and would cut off what a slow client has
 * not read yet; and it would wait for the client of a connection that falls idle during the stop, for `keepAliveTimeout`.
 */
export const drainConnections = fp(async (server) => {
	/** How many bytes had come when the last answer ended: what is beyond them is a request, or the beginning of one. */
	const answered = new Map<Socket, number>();
	let stopping = false;

	server.server.on('connection', (socket) => {
		answered.set(socket, 0);
		socket.once('close', () => answered.delete(socket));
	});
	server.server.on('request', ({ socket }, response) => {
		response.once('close', () => {
			if (stopping) socket.destroy();
			else if (answered.has(socket)) answered.set(socket, socket.bytesRead);
		});
	});
	server.server.closeIdleConnections = () => {
		for (const [socket, bytes] of answered) if (socket.bytesRead === bytes) socket.destroy();
	};

	server.addHook('preClose', async () => {
		stopping = true;
	});
	server.addHook('onSend', (_request, reply, _payload, done) => {
		if (stopping) reply.header('connection', 'close');
		done();
	});
});
