import { randomUUID } from 'node:crypto';
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { commonHeaders, Problem } from './problems.js';

/** What Node's HTTP parser calls the ways in which a request fails before it is one. */
const statuses: Record<string, number> = {
	HPE_HEADER_OVERFLOW: 431,
	HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
	ERR_HTTP_REQUEST_TIMEOUT: 408,
};

interface Connection {
	/** Answers that are not written to their end. */
	open: Set<ServerResponse>;
	/** The answer to the request that was read last, or is being read. */
	last?: ServerResponse;
	/** Nothing more is read of it: what comes after a broken request can't be told apart from it. */
	ending: boolean;
}

export interface ClientErrorHandler {
	/** Notes which requests of a connection wait for their answers. */
	watch(server: Server): void;
	/**
	 * Answers a request that never reached a route (bad request line, oversized headers, too slow) in the shape of every other
	 * error, after the answers to the requests before it on its connection, and closes the connection.
	 */
	answer(error: Error & { code?: string }, socket: Socket): void;
}

export function createClientErrorHandler(): ClientErrorHandler {
	const connections = new WeakMap<Socket, Connection>();

	function connectionOf(socket: Socket): Connection {
		const known = connections.get(socket);
		if (known !== undefined) return known;
		const connection: Connection = { open: new Set(), ending: false };
		connections.set(socket, connection);
		return connection;
	}

	function answer(error: Error & { code?: string }, socket: Socket): void {
		const connection = connectionOf(socket);
		if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) socket.destroy();
		if (connection.ending || socket.destroyed) return;
		connection.ending = true;
		const { open, last } = connection;
		const inBody = last?.req.complete === false;
		const answered = inBody && last.headersSent;
		const before = [...open].filter((response) => response !== last || !inBody || answered);
		let left = before.length;
		const finish = () => (answered ? socket.destroySoon() : writeProblem(error.code, socket));
		if (left === 0) finish();
		for (const response of before) {
			response.once('close', () => {
				left--;
				if (left === 0) finish();
			});
		}
	}

	return {
		watch(server) {
			server.prependListener('request', ({ socket }, response) => {
				const connection = connectionOf(socket);
				connection.last = response;
				connection.open.add(response);
				response.once('close', () => connection.open.delete(response));
			});
			// Asks for a tunnel, which Node would refuse without an answer.
			server.on('connect', (_request, socket) => {
				socket.on('error', () => undefined);
				answer(new Error('no tunnel'), socket as Socket);
			});
		},
		answer,
	};
}

function writeProblem(reason: string | undefined, socket: Socket): void {
	if (socket.destroyed || !socket.writable) {
		socket.destroy();
		return;
	}
	const id = randomUUID();
	const status = statuses[reason ?? ''] ?? 400;
	const problem = new Problem(status === 431 || status === 413 ? 'payload_too_large' : 'invalid_query', { status });
	const body = problem.body(id);
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
