import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { commonHeaders, Problem } from './problems.js';

/** What Node's HTTP parser calls the ways in which a request fails before it is one. */
const statuses: Record<string, number> = {
	HPE_HEADER_OVERFLOW: 431,
	HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
	ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/**
 * Answers a request that never reached a route (bad request line, oversized headers, too slow) in the shape of every other
 * error, and closes the connection: what follows on it can't be told apart from the broken request.
 */
export function answerMalformedHttp(
	error: Error & { code?: string },
	socket: Socket & { _httpMessage?: { headersSent: boolean } },
): void {
	const answered = socket._httpMessage?.headersSent === true;
	if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable || answered) {
		socket.destroy();
		return;
	}
	const id = randomUUID();
	const status = statuses[error.code ?? ''] ?? 400;
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
