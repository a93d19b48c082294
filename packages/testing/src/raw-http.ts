import { connect } from 'node:net';
import { expect } from 'vitest';
import { expectProblemBody, type ProblemBody } from './expect-problem.js';

/** A raw HTTP response. */
export interface RawAnswer {
	status: number;
	/** Names in lower case. */
	headers: Map<string, string>;
	body: Buffer;
}

/** The `code` values of each status. This is the table of errors that clients rely on, without server errors. */
const codes: Record<number, readonly string[]> = {
	400: ['invalid_json', 'invalid_body', 'invalid_query'],
	401: ['unauthorized'],
	404: ['not_found'],
	405: ['method_not_allowed'],
	408: ['request_timeout'],
	413: ['payload_too_large'],
	415: ['unsupported_media_type'],
	429: ['rate_limited'],
	431: ['payload_too_large'],
};

/** How long a server may keep the connection open after its response, until this side closes it. */
const maxSilenceMs = 400;

/**
 * Sends bytes on a new connection. Returns the responses until the server closes it, or stays idle after a response.
 *
 * @param firstByteTimeoutMs must exceed the server's own timeouts on a busy machine; after it, the result has no response
 */
export async function exchange(url: string, bytes: Buffer, firstByteTimeoutMs = 20_000): Promise<RawAnswer[]> {
	const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1' });
	const chunks: Buffer[] = [];
	await new Promise<void>((resolve) => {
		let timer = setTimeout(resolve, firstByteTimeoutMs);
		socket.on('data', (chunk) => {
			chunks.push(chunk);
			clearTimeout(timer);
			timer = setTimeout(resolve, maxSilenceMs);
		});
		socket.on('error', () => undefined);
		socket.on('close', () => {
			clearTimeout(timer);
			resolve();
		});
		socket.write(bytes);
	});
	socket.destroy();
	return parseResponses(Buffer.concat(chunks), bytes);
}

/** Sends these bytes on a new connection. Returns everything that the server sends until it closes the connection. */
export async function exchangeText(url: string, ...pieces: (string | Buffer)[]): Promise<string> {
	const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1' });
	let received = '';
	socket.setEncoding('latin1').on('data', (text) => {
		received += text;
	});
	socket.on('error', () => undefined);
	for (const piece of pieces) socket.write(piece);
	await new Promise((resolve) => socket.on('close', resolve));
	return received;
}

/** Splits the received bytes into responses. Interim ones (1xx) are left out. */
function parseResponses(bytes: Buffer, request: Buffer): RawAnswer[] {
	const responses: RawAnswer[] = [];
	for (let at = 0; at < bytes.length; ) {
		const end = bytes.indexOf('\r\n\r\n', at);
		const [statusLine = '', ...lines] = bytes.toString('latin1', at, end < 0 ? bytes.length : end).split('\r\n');
		const [, status] = /^HTTP\/1\.1 (\d{3}) [ -~]*$/.exec(statusLine) ?? [];
		if (status === undefined || end < 0) throw new Error(`no HTTP response: ${bytes.toString('latin1', at, at + 300)}`);
		at = end + 4;
		const headers = new Map<string, string>();
		for (const line of lines) {
			const [, name = '', value = ''] = /^([^\s:]+): ?(.*)$/.exec(line) ?? [];
			if (name === '' || headers.has(name.toLowerCase()))
				throw new Error(`a header that is wrong or repeated: ${line}`);
			headers.set(name.toLowerCase(), value);
		}
		if (status.startsWith('1')) continue;
		let length = status === '304' || status === '204' ? 0 : Number(headers.get('content-length'));
		// The response to a HEAD has no body, in spite of its Content-Length.
		const next = bytes.toString('latin1', at, at + 5);
		if ((next === '' || next === 'HTTP/') && request.includes('HEAD')) length = 0;
		if (!(at + length <= bytes.length)) throw new Error(`a response that is cut off: ${statusLine}`);
		responses.push({ status: Number(status), headers, body: bytes.subarray(at, at + length) });
		at += length;
	}
	return responses;
}

/** Checks a response against all guarantees for every response. A server error fails the check. */
export function expectPromised({ status, headers, body }: RawAnswer): void {
	expect(headers.get('referrer-policy')).toBe('no-referrer');
	expect(headers.get('x-content-type-options')).toBe('nosniff');
	expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
	if (status === 200 || status === 304) {
		expect(headers.get('cache-control')).toMatch(/^(no-store|private, no-cache)$/);
		return;
	}
	expect(headers.get('cache-control')).toBe('no-store');
	if (status === 302) {
		expect(headers.get('location')).toBe('/docs');
		return;
	}
	expect(Object.keys(codes).map(Number)).toContain(status);
	expect(headers.get('content-type')).toBe('application/problem+json');
	if (status === 401) expect(headers.get('www-authenticate')).toBe('ApiKey realm="contacts"');
	if (status === 405) expect(headers.get('allow')).toMatch(/^(GET|GET, HEAD|POST)$/);
	if (status === 429) expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
	// The response to a HEAD.
	if (body.length === 0) return;
	const problem = JSON.parse(body.toString()) as ProblemBody;
	expect(codes[status]).toContain(problem.code);
	expect(problem.request_id).toBe(headers.get('x-request-id'));
	expectProblemBody(problem, status, problem.code);
	if (problem.errors !== undefined) expect(['invalid_body', 'invalid_query']).toContain(problem.code);
}

/** The `code` of an error, or undefined. */
export function codeOf({ status, body }: RawAnswer): string | undefined {
	return status < 400 || body.length === 0 ? undefined : (JSON.parse(body.toString()) as ProblemBody).code;
}
