import { METHODS } from 'node:http';
import fc from 'fast-check';
import type { Endpoint } from './endpoint.js';

/** Any request that somebody may send, by accident or not, for property tests. */
export interface AnyRequest {
	bytes: Buffer;
	/** The query of a request that is otherwise right. */
	query?: string;
	/** Whether a service may wait for more of it: then it gets a 408 in the end. */
	isIncomplete: boolean;
}

/** Text that often causes bugs: other scripts, beyond the BMP, combining, control characters, lone surrogates. */
export const anyText: fc.Arbitrary<string> = fc.oneof(
	fc.string({ unit: 'grapheme', maxLength: 40 }),
	fc.string({ unit: 'binary', maxLength: 40 }),
	fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 20 }).map((units) => String.fromCharCode(...units)),
	fc.constantFrom('', ' ', '\0', '\u2028', '\uFEFF', 'e\u0301', '\u{1F468}\u200D\u{1F469}', '\uD800', '\uDC00x'),
	fc.constantFrom("' or 1=1 --", '../../etc/passwd', '%', '%00', '<script>', '__proto__', 'null', 'undefined', 'NaN'),
);

/** How a client may encode a text in a URL: correctly, with each octet escaped, wrongly, or hardly at all. */
const encoders: ((text: string) => string)[] = [
	(text) => encodeURIComponent(text.toWellFormed()),
	(text) => [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
	(text) => [...Buffer.from(text, 'latin1')].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
	(text) => `%zz${encodeURIComponent(text.toWellFormed())}%u0041%C0%AF%`,
	(text) =>
		Buffer.from(text)
			.toString('latin1')
			.replaceAll(/[\0-\x20\x7f]/g, '+'),
];

const inUrl = (text: fc.Arbitrary<string>) =>
	fc.tuple(text, fc.constantFrom(...encoders)).map(([value, encode]) => encode(value));

/** A query string, with or without these credentials, in any order. */
function anyQuery(credentials: readonly string[]): fc.Arbitrary<string> {
	const names = ['project', 'api_key', 'company_id', 'cursor', 'limit', 'api_key[]', 'project.x', 'constructor', ''];
	const pair = fc
		.tuple(inUrl(fc.oneof(fc.constantFrom(...names), anyText)), inUrl(anyText), fc.constantFrom('=', '=', '', '=='))
		.map(([name, value, sign]) => name + sign + value);
	const given = fc.constantFrom<readonly string[]>(credentials, credentials, [...credentials, ...credentials], []);
	return fc
		.tuple(given, fc.array(pair, { maxLength: 5 }), fc.constantFrom('&', '&', '&&', ';', '?', '#'))
		.chain(([right, pairs, separator]) => {
			const parts = [...right, ...pairs];
			return fc.shuffledSubarray(parts, { minLength: parts.length }).map((shuffled) => shuffled.join(separator));
		});
}

/** A method, or another string in its place. */
const anyMethod = fc.constantFrom(...METHODS, 'get', 'Post', 'BREW', 'PRI', 'GET ', 'G', '');

/** A request target: paths similar to the given one, other forms of a target, or any string. */
const anyTarget = (path: string) =>
	fc.oneof(
		fc.constantFrom(path, `${path}/`, `/${path}`, path.toUpperCase(), path.replace('_', '%5f'), `${path};a=b`),
		fc.constantFrom(`http://a${path}`, `https://user:pw@[::1]:80${path}`, 'ftp://a/b', 'a:443', '*', '', '#', '/%zz'),
		fc.constantFrom('/health/ready', '/metrics', '//metrics', '/api/../metrics', '/%00', `/${'%2e'.repeat(300)}`),
		inUrl(anyText).map((text) => path + text),
	);

const headers: Record<string, readonly string[]> = {
	'content-type': ['application/json; charset=utf-16', 'APPLICATION/JSON;x="', 'text/plain', ';'],
	'content-encoding': ['gzip', 'identity', 'br, gzip', ''],
	'content-length': ['0', '12', '-1', '0x10', ' 5', '99999999999999999999', '9007199254740993', '1, 1', ''],
	'transfer-encoding': ['chunked', 'gzip, chunked', 'chunked, gzip', 'identity', 'xchunked', ''],
	'accept-encoding': ['gzip', 'br;q=0, *;q=0', 'gzip;q=x', '*', ',,,', 'gzip;q=1e400', ';q=1', 'br,gzip,deflate,zstd'],
	'if-none-match': ['*', '"', '""', 'W/"a"', '"a", "b', '"\u00e9"', 'W/', '"'.repeat(999)],
	expect: ['100-continue', '200-ok', ''],
	connection: ['close', 'keep-alive', 'Upgrade', 'content-length', 'x, ,y'],
	upgrade: ['h2c', 'websocket', ''],
	trailer: ['content-length', 'x'],
	host: ['', 'a, b', 'a\tb', '[::1]:0', 'a:99999', 'x'.repeat(300)],
	authorization: ['Bearer x', 'Basic !'],
	range: ['bytes=0-0', 'bytes=-1'],
	'x-forwarded-for': ['203.0.113.7', '::1%lo', 'unknown', ',,', '1.2.3.4:5', '2001:db8::/64', 'x'.repeat(400)],
	'x-request-id': ['forged'],
};

/** Header lines, some of them invalid. */
const anyHeaders = fc.array(
	fc.oneof(
		fc.constantFrom(...Object.entries(headers).flatMap(([name, values]) => values.map((value) => `${name}: ${value}`))),
		fc
			.tuple(fc.constantFrom(...Object.keys(headers)), fc.string({ unit: 'binary-ascii', maxLength: 20 }))
			.map(([name, value]) => `${name}: ${value}`),
		fc.tuple(fc.string({ maxLength: 10 }), fc.string({ maxLength: 20 })).map(([name, value]) => `${name}: ${value}`),
	),
	{ maxLength: 6 },
);

/** Bytes with a few random changes: truncated, removed, inserted or repeated. */
export function withFaults(bytes: Buffer): fc.Arbitrary<Buffer> {
	const fault = fc.tuple(
		fc.constantFrom('cut', 'remove', 'insert', 'replace', 'double'),
		fc.nat({ max: bytes.length }),
		fc.oneof(fc.uint8Array({ maxLength: 6 }), fc.constantFrom('\r\n', '\n', '\0', ' ', ':', '\r\n\r\n', '%', '"')),
	);
	return fc.array(fault, { minLength: 1, maxLength: 3 }).map((faults) =>
		faults.reduce((text, [kind, place, piece]) => {
			const [before, after] = [text.subarray(0, place), text.subarray(place)];
			const some = Buffer.from(piece as string);
			if (kind === 'cut') return before;
			if (kind === 'remove') return Buffer.concat([before, after.subarray(1 + some.length)]);
			if (kind === 'insert') return Buffer.concat([before, some, after]);
			if (kind === 'replace') return Buffer.concat([before, some, after.subarray(some.length)]);
			return Buffer.concat([before, after.subarray(0, 40), after]);
		}, bytes),
	);
}

/** A request to an endpoint, with these header lines besides its own. */
export function requestBytes(
	{ method, path, body = '' }: Endpoint,
	query: string,
	more: readonly string[] = [],
): Buffer {
	const length = body === '' ? [] : ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`];
	const lines = [`${method} ${path}?${query} HTTP/1.1`, 'Host: a', ...more, ...length, 'Connection: close', '', body];
	return Buffer.from(lines.join('\r\n'), 'latin1');
}

/** A request to an endpoint of which something is wrong or unusual: its query, its target, its headers or any of its bytes. */
export function anyRequest(endpoint: Endpoint, credentials: readonly string[]): fc.Arbitrary<AnyRequest> {
	const good = credentials.join('&');
	const targets = fc.tuple(anyMethod, anyTarget(endpoint.path), fc.constantFrom('', `?${good}`));
	return fc.oneof(
		anyQuery(credentials).map((query) => ({ query, bytes: requestBytes(endpoint, query), isIncomplete: false })),
		targets.map(([method, target, query]) => ({
			bytes: Buffer.from(`${method} ${target}${query} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`, 'latin1'),
			isIncomplete: false,
		})),
		anyHeaders.map((lines) => ({ bytes: requestBytes(endpoint, good, lines), isIncomplete: true })),
		withFaults(requestBytes(endpoint, good)).map((bytes) => ({ bytes, isIncomplete: true })),
	);
}
