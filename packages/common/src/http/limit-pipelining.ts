import type { RequestListener, Server } from 'node:http';
import type { Socket } from 'node:net';

/** The most requests of one connection that are taken at once. Clients that pipeline at all send about ten. */
const most = 100;

interface Connection {
	/** Requests that are not answered, or were within this turn of the event loop. */
	pending: number;
	/** Nothing more is taken from it. */
	full: boolean;
}

/**
 * Takes so many requests of one connection at once and no more: the connection is closed after their answers, and the client
 * sends the others again on another (RFC 9112, section 9.3.2). Thousands of small requests fit into what is read of a socket
 * at once; all of them would be carried out before anybody else's turn, and kept in memory until they are answered.
 */
export function limitPipelining(server: Server): void {
	const connections = new WeakMap<Socket, Connection>();
	const [handle] = server.listeners('request') as RequestListener[];
	if (handle === undefined) throw new Error('the server has nothing that answers requests yet');
	server.removeListener('request', handle);
	server.on('request', (request, response) => {
		const { socket } = request;
		const connection = connections.get(socket) ?? { pending: 0, full: false };
		connections.set(socket, connection);
		if (connection.full) return;
		connection.pending++;
		response.once('close', () => setImmediate(() => connection.pending--));
		if (connection.pending === most) {
			connection.full = true;
			response.setHeader('connection', 'close');
			// Node's own parser, where it can be told: what it has read already is not even looked at then.
			(socket as Socket & { parser?: { pause?(): void } }).parser?.pause?.();
			socket.pause();
		}
		handle(request, response);
	});
}
