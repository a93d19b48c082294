import { randomUUID } from 'node:crypto';
import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import { commonHeaders, Problem } from './problems.js';
import { DrainedConnections } from './rolling-restarts.js';

/** The responses to errors of Node's HTTP parser, by their code. All others are `malformed`. */
export const clientErrors: Record<string, Problem> = {
	HPE_HEADER_OVERFLOW: new Problem('payload_too_large', { status: 431 }),
	HPE_CHUNK_EXTENSIONS_OVERFLOW: new Problem('payload_too_large'),
	ERR_HTTP_REQUEST_TIMEOUT: new Problem('request_timeout'),
};
const malformed = new Problem('invalid_query', { detail: 'The request is not valid HTTP/1.1.' });

/** Options of Fastify. */
interface ServerHandlers {
	serverFactory(handle: RequestListener): Server;
	clientErrorHandler(error: Error & { code?: string }, socket: Socket): void;
}

/**
 * Node's HTTP server, which stops without a failed request. A request that never reaches a route (bad request line, oversized
 * headers, too slow) gets a response in the common error format, and a line in the log. It is sent after the responses to earlier
 * requests, and the connection is closed.
 */
export function createHandlers(options: ServerOptions, logger: FastifyBaseLogger): ServerHandlers {
	const connections = new DrainedConnections();
	/** Nothing more is read from them: the end of a malformed request can't be detected. */
	const ending = new WeakSet<Socket>();

	async function respondToClientError(error: Error & { code?: string }, socket: Socket): Promise<void> {
		const connection = connections.get(socket);
		if (error.code === 'ECONNRESET' || !socket.writable) socket.destroy();
		if (connection === undefined || ending.has(socket) || socket.destroyed) return;
		ending.add(socket);
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
			// Node drops what is behind the headers of such a request in the same packet, such as another one.
			if (request.headers.upgrade !== undefined && /\bupgrade\b/i.test(request.headers.connection ?? ''))
				response.shouldKeepAlive = false;
			if (connections.accept(request.socket, response)) handle(request, response);
		});
		connections.observe(server);
		// Node would respond to any Expect except 100-continue with an empty 417. RFC 9110 allows to ignore the header.
		server.on('checkExpectation', (request, response) => server.emit('request', request, response));
		// A request for a tunnel, which Node would reject without a response.
		server.on('connect', (_request, socket) => {
			socket.on('error', () => undefined);
			void respondToClientError(new Error('no tunnel'), socket as Socket);
		});
		return server;
	}

	return { serverFactory, clientErrorHandler: (error, socket) => void respondToClientError(error, socket) };
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
