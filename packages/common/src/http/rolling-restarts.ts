import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * How long a stopping server waits for the first request of a connection that a client has established. Together with
 * `maxQuietWaitMs` less than the shortest SHUTDOWN_TIMEOUT_SECONDS.
 */
const firstRequestTimeoutMs = 700;

/** A turn of an event loop with nothing to do takes some microseconds. */
const quietTurnMs = 0.02;

/** An overloaded server has no quiet turn. On a busy machine a process may not run for as long: it has some turns in any case. */
const maxQuietWaitMs = 200;
const minTurns = 20;

/** What Node's server listens with. */
interface Listener {
	_handle: { close(): void } | null;
}

interface Connection {
	/** Responses that are not completely written. */
	readonly open: Set<ServerResponse>;
	/** The response to the last request that was read or is being read. */
	last: ServerResponse | undefined;
	/** The number of bytes received when the last response ended. Bytes beyond it belong to another request. */
	respondedBytes: number;
}

/**
 * Stops a server without a failed request. It first accepts the connections that clients have established, whose requests may
 * have been sent: a proxy can't send an upsert again to another replica. Then it closes idle connections at once and every other
 * one after the responses to the requests that it has received. Node itself treats a connection as idle as soon as its response
 * is queued, and would cut off a slow client. It would also wait `keepAliveTimeout` for a connection that becomes idle during the
 * stop.
 */
export class DrainedConnections {
	readonly #connections = new Map<Socket, Connection>();
	#isStopping = false;

	/** Call this once for each server: Fastify has one for each address of `localhost`. */
	observe(server: Server): void {
		server.on('connection', (socket) => {
			this.#connections.set(socket, { open: new Set(), last: undefined, respondedBytes: 0 });
			socket.once('close', () => this.#connections.delete(socket));
		});
		// Both Fastify and Node call it when the server stops, but `#drain` decides.
		server.closeIdleConnections = () => undefined;
		const { close } = server;
		server.close = (callback) => {
			stopListeningWhenQuiet(server, () => {
				close.call(server, callback);
				this.#drain();
			});
			return server;
		};
	}

	/** Undefined after it was closed. */
	get(socket: Socket): Pick<Connection, 'open' | 'last'> | undefined {
		return this.#connections.get(socket);
	}

	/** Call this for each request. @returns false for a request that gets no response */
	accept(socket: Socket, response: ServerResponse): boolean {
		const connection = this.#connections.get(socket) as Connection;
		const { open } = connection;
		// The client learns from the last response that it was not accepted.
		if (this.#isStopping && open.size > 0) return false;
		connection.last = response;
		open.add(response);
		response.on('close', () => {
			open.delete(response);
			if (this.#isStopping && open.size === 0) {
				socket.destroy();
				return;
			}
			connection.respondedBytes = socket.bytesRead;
			// A rejected request: Node still reads its body, and the connection is idle again after that.
			if (!response.req.complete) {
				response.req.once('end', () => {
					if (connection.last === response) connection.respondedBytes = socket.bytesRead;
				});
			}
		});
		return true;
	}

	#drain(): void {
		this.#isStopping = true;
		for (const [socket, { open, last, respondedBytes }] of this.#connections) {
			if (socket.bytesRead === 0) {
				const timer = setTimeout(() => socket.bytesRead === 0 && socket.destroy(), firstRequestTimeoutMs);
				socket.once('close', () => clearTimeout(timer));
			} else if (open.size > 0) {
				if (last?.headersSent === false) last.setHeader('connection', 'close');
			}
			// While the body of a rejected request arrives, there is no other request to wait for.
			else if (socket.bytesRead === respondedBytes || last?.req.complete === false) socket.destroy();
		}
	}
}

/**
 * Stops to listen in a turn of the event loop in which the server had nothing to accept, and little time to receive something,
 * and calls back. The system resets connections that have not been accepted at that moment. Node's own `close` would come to it a
 * millisecond later, because its code runs for the first time.
 */
function stopListeningWhenQuiet(server: Server, callback: () => void): void {
	const { _handle: handle } = server as Server & Listener;
	const until = performance.now() + maxQuietWaitMs;
	let accepted = 0;
	server.on('connection', () => accepted++);
	const turn = (since: number, before: number, turns: number) => {
		const now = performance.now();
		if ((accepted === before && now - since < quietTurnMs) || (now > until && turns > minTurns)) {
			handle?.close();
			callback();
		} else setImmediate(turn, now, accepted, turns + 1);
	};
	setImmediate(turn, 0, 0, 0);
}
