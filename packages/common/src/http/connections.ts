import { randomUUID } from 'node:crypto';
import { createServer, type RequestListener, type Server, type ServerOptions, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import { commonHeaders, Problem } from './problems.js';

/** The responses to errors of Node's HTTP parser, by their code. All others are `malformed`. */
export const clientErrors: Record<string, Problem> = {
	HPE_HEADER_OVERFLOW: new Problem('payload_too_large', { status: 431 }),
	HPE_CHUNK_EXTENSIONS_OVERFLOW: new Problem('payload_too_large'),
	ERR_HTTP_REQUEST_TIMEOUT: new Problem('request_timeout'),
};
const malformed = new Problem('invalid_query', { detail: 'The request is not valid HTTP/1.1.' });

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
	/** Nothing more is read: the end of a malformed request can't be detected. */
	isEnding: boolean;
}

/** Options of Fastify. */
interface Connections {
	serverFactory(handle: RequestListener): Server;
	clientErrorHandler(error: Error & { code?: string }, socket: Socket): void;
}

/**
 * Node's HTTP server, with what is decided per connection and not per request:
 *
 * - **Client errors.** A request that never reaches a route (bad request line, oversized headers, too slow) gets a response
 *   in the common error format, and a line in the log. It is sent after the responses to earlier requests, and the connection is closed.
 * - **Draining.** When the server stops, it first accepts the connections that clients have established, whose requests
 *   may have been sent: a proxy can't send an upsert again to another replica. Then it closes idle connections at once and
 *   every other one after the responses to the requests that it has received. Node itself treats a connection as idle as soon as its response is queued, and would cut
 *   off a slow client. It would also wait `keepAliveTimeout` for a connection that becomes idle during the stop.
 */
export function createConnections(options: ServerOptions, logger: FastifyBaseLogger): Connections {
	const connections = new Map<Socket, Connection>();
	let isStopping = false;

	function accept(socket: Socket, response: ServerResponse): boolean {
		const connection = connections.get(socket) as Connection;
		const { open } = connection;
		// The client learns from the last response that it was not accepted.
		if (isStopping && open.size > 0) return false;
		connection.last = response;
		open.add(response);
		response.once('close', () => {
			open.delete(response);
			if (isStopping && open.size === 0) {
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

	async function respondToClientError(error: Error & { code?: string }, socket: Socket): Promise<void> {
		const connection = connections.get(socket);
		if (error.code === 'ECONNRESET' || !socket.writable) socket.destroy();
		if (connection === undefined || connection.isEnding || socket.destroyed) return;
		connection.isEnding = true;
		const { open, last } = connection;
		// An error in the body of a request is the response to this request, unless it has one.
		const inBody = last?.req.complete === false;
		const hasResponded = inBody && last.headersSent;
		const earlier = [...open].filter((response) => response !== last || !inBody || hasResponded);
		await Promise.all(earlier.map((response) => new Promise((resolve) => response.once('close', resolve))));
		if (hasResponded) socket.destroySoon();
		else writeProblem(error.code, socket, logger);
	}

	function serverFactory(handle: RequestListener): Server {
		const server = createServer(options, (request, response) => {
			if (accept(request.socket, response)) handle(request, response);
		});
		server.on('connection', (socket) => {
			connections.set(socket, { open: new Set(), last: undefined, respondedBytes: 0, isEnding: false });
			socket.once('close', () => connections.delete(socket));
		});
		// Node would respond to any Expect except 100-continue with an empty 417. RFC 9110 allows to ignore the header.
		server.on('checkExpectation', (request, response) => server.emit('request', request, response));
		// A request for a tunnel, which Node would reject without a response.
		server.on('connect', (_request, socket) => {
			socket.on('error', () => undefined);
			void respondToClientError(new Error('no tunnel'), socket as Socket);
		});
		// Both Fastify and Node call it when the server stops, but `drain` decides.
		server.closeIdleConnections = () => undefined;
		const { close } = server;
		server.close = (callback) => {
			stopListeningWhenQuiet(server, () => {
				close.call(server, callback);
				drain();
			});
			return server;
		};
		return server;
	}

	function drain(): void {
		isStopping = true;
		for (const [socket, { open, last, respondedBytes }] of connections) {
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

	return { serverFactory, clientErrorHandler: (error, socket) => void respondToClientError(error, socket) };
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

function writeProblem(reason: string | undefined, socket: Socket, logger: FastifyBaseLogger): void {
	if (!socket.writable) {
		socket.destroy();
		return;
	}
	const id = randomUUID();
	const problem = clientErrors[reason ?? ''] ?? malformed;
	const { status } = problem;
	const body = problem.body(id);
	logger.info({ request_id: id, client: socket.remoteAddress, status, code: problem.code }, 'request');
	const headers = {
		...commonHeaders,
		'content-type': 'application/problem+json',
		'content-length': String(Buffer.byteLength(body)),
		'x-request-id': id,
		date: new Date().toUTCString(),
		connection: 'close',
	};
	const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
	socket.end([`HTTP/1.1 ${status} ${problem.title}`, ...lines, '', body].join('\r\n'), () => socket.destroy());
}
