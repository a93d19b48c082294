import { randomUUID } from 'node:crypto';
import type { RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import { commonHeaders, Problem } from './problems.js';

/** Maximum number of pipelined requests on one connection. Clients that use pipelining send about ten. */
const maxPipelined = 100;

/** Status codes for errors of Node's HTTP parser. All others are 400. */
const statuses: Record<string, number> = {
	HPE_HEADER_OVERFLOW: 431,
	HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
	ERR_HTTP_REQUEST_TIMEOUT: 408,
};

interface Connection {
	/** Responses that are not completely written. */
	readonly open: Set<ServerResponse>;
	/** The response to the last request that was read or is being read. */
	last: ServerResponse | undefined;
	/** The number of bytes received when the last response ended. Bytes beyond it belong to another request. */
	respondedBytes: number;
	/** Responses that ended in this turn of the event loop. */
	endedInTurn: number;
	turn: number;
	/** No further requests are accepted. */
	full: boolean;
	/** Nothing more is read: the end of a malformed request can't be detected. */
	ending: boolean;
}

interface Connections {
	/** Fastify's `clientErrorHandler`. */
	onClientError(error: Error & { code?: string }, socket: Socket): void;
	/** Call it before any route is registered. */
	watch(server: FastifyInstance): void;
}

/**
 * Everything that is decided per connection, not per request:
 *
 * - **Client errors.** A request that never reaches a route (bad request line, oversized headers, too slow) gets a response
 *   in the common error format, and a line in the log. It is sent after the responses to earlier requests, and the connection is closed.
 * - **Pipelining.** One connection may have a limited number of pipelined requests. At the limit, the connection is closed
 *   after their responses, and the client sends the others again on another one (RFC 9112, section 9.3.2). One read of a
 *   socket can return thousands of small requests. All of them would be processed before those of any other client.
 * - **Draining.** When the server stops, it closes idle connections at once and every other one after the responses to the
 *   requests that it has received. Node itself treats a connection as idle as soon as its response is queued, and would cut off a slow client. It would also
 *   wait `keepAliveTimeout` for a connection that becomes idle during the stop.
 */
export function createConnections(logger: FastifyBaseLogger): Connections {
	const connections = new Map<Socket, Connection>();
	let stopping = false;
	/** Counts the turns of the event loop in which a response ended. One callback in the next turn serves all connections. */
	let turn = 0;
	let turnEnds = false;

	function connectionOf(socket: Socket): Connection {
		let connection = connections.get(socket);
		if (connection === undefined) {
			connection = {
				open: new Set(),
				last: undefined,
				respondedBytes: 0,
				endedInTurn: 0,
				turn,
				full: false,
				ending: false,
			};
			connections.set(socket, connection);
			socket.once('close', () => connections.delete(socket));
		}
		return connection;
	}

	function endInTurn(connection: Connection): void {
		if (!turnEnds) {
			setImmediate(() => {
				turn++;
				turnEnds = false;
			});
		}
		turnEnds = true;
		if (connection.turn !== turn) connection.endedInTurn = 0;
		connection.turn = turn;
		connection.endedInTurn++;
	}

	function accept(socket: Socket, response: ServerResponse): boolean {
		const connection = connectionOf(socket);
		const { open } = connection;
		if (connection.full || (stopping && open.size > 0)) return false;
		connection.last = response;
		open.add(response);
		response.once('close', () => {
			open.delete(response);
			endInTurn(connection);
			if (stopping && open.size === 0) {
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
		if (open.size + (connection.turn === turn ? connection.endedInTurn : 0) === maxPipelined) {
			connection.full = true;
			response.setHeader('connection', 'close');
			// Pauses Node's parser too, if possible, so that it does not even parse the bytes that it has already read.
			(socket as Socket & { parser?: { pause?(): void } }).parser?.pause?.();
			socket.pause();
		}
		return true;
	}

	function onClientError(error: Error & { code?: string }, socket: Socket): void {
		const connection = connectionOf(socket);
		if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) socket.destroy();
		if (connection.ending || socket.destroyed) return;
		connection.ending = true;
		const { open, last } = connection;
		const inBody = last?.req.complete === false;
		const responded = inBody && last.headersSent;
		const earlier = [...open].filter((response) => response !== last || !inBody || responded);
		let left = earlier.length;
		const finish = () => (responded ? socket.destroySoon() : writeProblem(error.code, socket, logger));
		if (left === 0) finish();
		for (const response of earlier) {
			response.once('close', () => {
				left--;
				if (left === 0) finish();
			});
		}
	}

	return {
		onClientError,
		watch(fastify) {
			const { server } = fastify;
			server.on('connection', connectionOf);
			const [handle] = server.listeners('request') as RequestListener[];
			if (handle === undefined) throw new Error('the server has nothing that handles requests yet');
			server.removeListener('request', handle);
			server.on('request', (request, response) => {
				if (accept(request.socket, response)) handle(request, response);
			});
			// A request for a tunnel, which Node would reject without a response.
			server.on('connect', (_request, socket) => {
				socket.on('error', () => undefined);
				onClientError(new Error('no tunnel'), socket as Socket);
			});
			server.closeIdleConnections = () => {
				for (const [socket, { open, last, respondedBytes }] of connections) {
					if (open.size > 0) continue;
					// While the body of a rejected request arrives, there is no other request to wait for.
					if (socket.bytesRead === respondedBytes || last?.req.complete === false) socket.destroy();
				}
			};
			fastify.addHook('preClose', async () => {
				stopping = true;
			});
			fastify.addHook('onSend', ({ raw: { socket } }, reply, _payload, done) => {
				if (stopping && connections.get(socket)?.last === reply.raw) reply.header('connection', 'close');
				done();
			});
		},
	};
}

function writeProblem(reason: string | undefined, socket: Socket, logger: FastifyBaseLogger): void {
	if (socket.destroyed || !socket.writable) {
		socket.destroy();
		return;
	}
	const id = randomUUID();
	const status = statuses[reason ?? ''] ?? 400;
	const problem = new Problem(status === 431 || status === 413 ? 'payload_too_large' : 'invalid_query', { status });
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
