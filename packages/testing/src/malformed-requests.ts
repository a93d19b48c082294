import type { Endpoint } from './endpoint.js';

/** Bytes for a connection, the statuses of all responses in order, and the `code` of the last one. */
export type MalformedRequest = [name: string, bytes: string | Buffer, statuses: readonly number[], code?: string];

const bad: readonly number[] = [400];
const end = 'Connection: close\r\n\r\n';
const json = 'Content-Type: application/json\r\n';

/** Requests that are malformed HTTP, or valid but very unusual. */
export function malformedRequests({ method, path, body }: Endpoint, good: string): MalformedRequest[] {
	const target = `${path}?${good}`;
	const right =
		body === undefined
			? `${method} ${target} HTTP/1.1\r\nHost: a\r\n`
			: `${method} ${target} HTTP/1.1\r\nHost: a\r\n${json}`;
	const length = body === undefined ? '' : `Content-Length: ${body.length}\r\n`;
	const whole = `${right}${length}\r\n${body ?? ''}`;

	return [
		['an empty line alone', '\r\n\r\n', [408], 'invalid_query'],
		['no method', ' / HTTP/1.1\r\n\r\n', bad, 'invalid_query'],
		['no target', `GET HTTP/1.1\r\nHost: a\r\n${end}`, bad, 'invalid_query'],
		['two spaces', `GET  /nowhere HTTP/1.1\r\nHost: a\r\n${end}`, [404], 'not_found'],
		['a space in the target', `GET /a b HTTP/1.1\r\nHost: a\r\n${end}`, bad, 'invalid_query'],
		['a tab in the target', `GET /a\tb HTTP/1.1\r\nHost: a\r\n${end}`, bad, 'invalid_query'],
		['NUL in the target', `GET /a\0b HTTP/1.1\r\nHost: a\r\n${end}`, bad, 'invalid_query'],
		['a method in small letters', `get ${target} HTTP/1.1\r\nHost: a\r\n${end}`, bad, 'invalid_query'],
		['a method that goes on for ever', `${'X'.repeat(15_000)} / HTTP/1.1\r\n\r\n`, bad, 'invalid_query'],
		['another protocol', `GET / FTP/1.1\r\nHost: a\r\n${end}`, bad, 'invalid_query'],
		['a version that nobody knows', `GET / HTTP/1.9\r\nHost: a\r\n${end}`, bad, 'invalid_query'],
		['a version of three numbers', `GET / HTTP/1.1.1\r\nHost: a\r\n${end}`, bad, 'invalid_query'],
		['no version, as in HTTP/0.9', 'GET /nowhere\r\n\r\n', [404], 'not_found'],
		['HTTP/1.0 without a host', `${method} ${path} HTTP/1.0\r\n\r\n`, [401], 'unauthorized'],
		['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', bad, 'invalid_query'],
		['a ClientHello of TLS', Buffer.from('16030100c8010000c40303a1b2c3d4', 'hex'), bad, 'invalid_query'],
		['SSH', 'SSH-2.0-OpenSSH_9.2\r\n', bad, 'invalid_query'],
		['a start packet of PostgreSQL', Buffer.from('0000000804d2162f', 'hex'), bad, 'invalid_query'],
		['a command of Redis', '*1\r\n$4\r\nPING\r\n', bad, 'invalid_query'],
		['a PROXY line', `PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n${whole}`, bad, 'invalid_query'],

		['lines that end in LF alone', `GET / HTTP/1.1\nHost: a\nConnection: close\n\n`, bad, 'invalid_query'],
		['lines that end in CR alone', `GET / HTTP/1.1\rHost: a\r\r`, bad, 'invalid_query'],
		['a header that is folded', `GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n${end}`, bad, 'invalid_query'],
		['a header that begins with white space', `GET / HTTP/1.1\r\n Host: a\r\n${end}`, bad, 'invalid_query'],
		['a header without a colon', `GET / HTTP/1.1\r\nHost: a\r\nX\r\n${end}`, bad, 'invalid_query'],
		['a header without a name', `GET / HTTP/1.1\r\nHost: a\r\n: x\r\n${end}`, bad, 'invalid_query'],
		['a space before the colon', `GET / HTTP/1.1\r\nHost : a\r\n${end}`, bad, 'invalid_query'],
		['NUL in the name of a header', `GET / HTTP/1.1\r\nHost: a\r\nX\0: a\r\n${end}`, bad, 'invalid_query'],
		['NUL in a header', `GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n${end}`, bad, 'invalid_query'],
		['a control character in a header', `GET / HTTP/1.1\r\nHost: a\r\nX: a\x07b\r\n${end}`, bad, 'invalid_query'],
		['CR in a header', `GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n${end}`, bad, 'invalid_query'],
		['2,500 headers', `GET /nowhere HTTP/1.1\r\nHost: a\r\n${'A:b\r\n'.repeat(2500)}${end}`, [404], 'not_found'],
		['too many headers', `GET / HTTP/1.1\r\nHost: a\r\n${'A:b\r\n'.repeat(9000)}${end}`, [431], 'payload_too_large'],
		['no host', `GET / HTTP/1.1\r\n${end}`, bad, 'invalid_query'],
		['two hosts', `GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n${end}`, bad, 'invalid_query'],
		['an empty host', `GET /nowhere HTTP/1.1\r\nHost:\r\n${end}`, [404], 'not_found'],

		[
			'a length and chunks',
			`${right}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n${end}0\r\n\r\n`,
			bad,
			'invalid_query',
		],
		[
			'chunks and a length',
			`${right}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n${end}0\r\n\r\n`,
			bad,
			'invalid_query',
		],
		['two lengths that agree', `${right}Content-Length: 2\r\nContent-Length: 2\r\n${end}{}`, bad, 'invalid_query'],
		['a negative length', `${right}Content-Length: -1\r\n${end}`, bad, 'invalid_query'],
		['a length with a sign', `${right}Content-Length: +2\r\n${end}{}`, bad, 'invalid_query'],
		['a hexadecimal length', `${right}Content-Length: 0x2\r\n${end}{}`, bad, 'invalid_query'],
		['a list of lengths', `${right}Content-Length: 2, 2\r\n${end}{}`, bad, 'invalid_query'],
		['a length beyond 2^64', `${right}Content-Length: 18446744073709551616\r\n${end}`, bad, 'invalid_query'],
		['another transfer encoding', `${right}Transfer-Encoding: gzip\r\n${end}`, bad, 'invalid_query'],
		[
			'chunks that are not the last encoding',
			`${right}Transfer-Encoding: chunked, gzip\r\n${end}`,
			bad,
			'invalid_query',
		],
		[
			'chunks twice',
			`${right}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n${end}`,
			bad,
			'invalid_query',
		],

		[
			'a target in absolute form',
			`${method} http://a${target} HTTP/1.1\r\nHost: a\r\n${length}${json}${end}${body ?? ''}`,
			[200],
		],
		[
			'another method, in absolute form',
			`PUT http://a${target} HTTP/1.1\r\nHost: a\r\n${end}`,
			[405],
			'method_not_allowed',
		],
		['a target in authority form', `GET a:443 HTTP/1.1\r\nHost: a\r\n${end}`, bad, 'invalid_query'],
		['a tunnel', `CONNECT a:443 HTTP/1.1\r\nHost: a\r\n${end}`, bad, 'invalid_query'],
		['a tunnel to the path', `CONNECT ${target} HTTP/1.1\r\nHost: a\r\n${end}`, bad, 'invalid_query'],
		['OPTIONS of the whole server', `OPTIONS * HTTP/1.1\r\nHost: a\r\n${end}`, [404], 'not_found'],
		[
			'an upgrade to HTTP/2',
			`${right}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n${length}\r\n${body ?? ''}`,
			[200],
		],
		['a fragment', `DELETE ${path}#${good} HTTP/1.1\r\nHost: a\r\n${end}`, [405], 'method_not_allowed'],
		[
			'an escaped slash',
			`${method} ${path.replace(/.([^/]*)$/, '%2F$1')}?${good} HTTP/1.1\r\nHost: a\r\n${end}`,
			[404],
			'not_found',
		],

		['garbage after a request', `${whole}GARBAGE\r\n\r\n`, [200, 400], 'invalid_query'],
		['garbage after three requests', `${whole}${whole}${whole}\0\0\0\0`, [200, 200, 200, 400], 'invalid_query'],
		['another request after garbage', `GARBAGE\r\n\r\n${whole}`, bad, 'invalid_query'],
		['a request after one that closes', `${right}${length}${end}${body ?? ''}${whole}`, [200]],
		['an unknown method after a request', `${whole}BREW / HTTP/1.1\r\nHost: a\r\n\r\n`, [200, 400], 'invalid_query'],
		['half a request after a whole one', `${whole}GET / HT`, [200, 408], 'invalid_query'],
	];
}

/** Bodies with a malformed transfer, for an endpoint that reads one. */
export function brokenBodies({ path }: Endpoint, good: string): MalformedRequest[] {
	const head = `POST ${path}?${good} HTTP/1.1\r\nHost: a\r\n${json}`;
	const chunked = (chunks: string) => `${head}Transfer-Encoding: chunked\r\n${end}${chunks}`;

	return [
		['a length beyond 2^53', `${head}Content-Length: 9007199254740993\r\n${end}`, [413], 'payload_too_large'],
		['a body that breaks off', `${head}Content-Length: 14\r\n${end}{"chat_id":7}`, [408], 'invalid_query'],
		['the size of a chunk is no number', chunked('xyz\r\n{}\r\n0\r\n\r\n'), bad, 'invalid_query'],
		['the size of a chunk is negative', chunked('-2\r\n{}\r\n0\r\n\r\n'), bad, 'invalid_query'],
		['the size of a chunk has a prefix', chunked('0x2\r\n{}\r\n0\r\n\r\n'), bad, 'invalid_query'],
		['the size of a chunk is beyond 2^64', chunked('fffffffffffffffff\r\n{}\r\n0\r\n\r\n'), bad, 'invalid_query'],
		['a chunk that is longer than it says', chunked('2\r\n{}{}\r\n0\r\n\r\n'), bad, 'invalid_query'],
		['chunks that end in LF alone', chunked('2\n{}\n0\n\n'), bad, 'invalid_query'],
		[
			'an extension of a chunk that is too large',
			chunked(`2;${'x'.repeat(17_000)}\r\n{}\r\n0\r\n\r\n`),
			[413],
			'payload_too_large',
		],
		['trailers that are too large', chunked(`2\r\n{}\r\n0\r\nX: ${'x'.repeat(17_000)}\r\n\r\n`), [431]],
		[
			'a trailer that is a length',
			chunked(`d\r\n{"chat_id":7}\r\n0\r\nContent-Length: 1\r\n\r\n`),
			bad,
			'invalid_query',
		],
	];
}
