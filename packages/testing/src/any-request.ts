import { METHODS } from 'node:http';
import fc from 'fast-check';

/** Generators of any request that somebody may send, by accident or not, for property tests. */

/** Text that often causes bugs: other scripts, beyond the BMP, combining, control characters, lone surrogates. */
export const anyText: fc.Arbitrary<string> = fc.oneof(
	fc.string({ unit: 'grapheme', maxLength: 40 }),
	fc.string({ unit: 'binary', maxLength: 40 }),
	fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 20 }).map((units) => String.fromCharCode(...units)),
	fc.constantFrom(
		...[
			'',
			' ',
			'\0',
			'\u2028',
			'\uFEFF',
			'\u202E',
			'e\u0301',
			'\u{1F468}\u200D\u{1F469}',
			'\uD800',
			'\uDC00x',
			"' or 1=1 --",
		],
		...['{{7*7}}', '../../etc/passwd', '%', '%00', '<script>', '__proto__', 'null', 'undefined', 'NaN'],
	),
);

/** How a client may encode a text in a URL: correctly, with each octet escaped, wrongly, or hardly at all. */
const written: ((text: string) => string)[] = [
	(text) => encodeURIComponent(text.toWellFormed()),
	(text) => [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
	(text) =>
		[...Buffer.from(text, 'latin1')].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
	(text) => `${encodeURIComponent(text.toWellFormed())}%`,
	(text) => `%zz${encodeURIComponent(text.toWellFormed())}%u0041%C0%AF`,
	(text) =>
		Buffer.from(text)
			.toString('latin1')
			.replaceAll(/[\0-\x20\x7f]/g, '+'),
];

const inUrl = (text: fc.Arbitrary<string>) =>
	fc.tuple(text, fc.constantFrom(...written)).map(([value, write]) => write(value));

/** A query string, with or without these credentials, in any order. */
export function anyQuery(credentials: readonly string[]): fc.Arbitrary<string> {
	const name = fc.oneof(
		fc.constantFrom('project', 'api_key', 'company_id', 'api_key[]', 'project.x', 'constructor', 'toString', ''),
		anyText,
	);
	const pair = fc
		.tuple(inUrl(name), inUrl(anyText), fc.constantFrom('=', '=', '=', '', '=='))
		.map(([key, value, sign]) => key + sign + value);
	const given = fc.constantFrom<readonly string[]>(credentials, credentials, [...credentials, ...credentials], []);
	return fc
		.tuple(given, fc.array(pair, { maxLength: 5 }), fc.constantFrom('&', '&', '&&', ';', '?', '#'))
		.chain(([right, pairs, separator]) =>
			fc
				.shuffledSubarray([...right, ...pairs], { minLength: right.length + pairs.length })
				.map((parts) => parts.join(separator)),
		);
}

/** A method, or another string in its place. */
export const anyMethod: fc.Arbitrary<string> = fc.oneof(
	fc.constantFrom(...METHODS),
	fc.constantFrom('get', 'Post', 'BREW', 'PRI', 'GET ', 'G', ''),
);

/** A request target: paths similar to the given one, other forms of a target, or any string. */
export function anyTarget(path: string): fc.Arbitrary<string> {
	return fc.oneof(
		fc.constantFrom(
			...[path, `${path}/`, `/${path}`, path.toUpperCase(), path.replace('_', '%5f'), path.replaceAll('/', '%2F')],
			...[
				`http://a${path}`,
				`https://user:pw@[::1]:80${path}`,
				'http://',
				'ftp://a/b',
				'a:443',
				'*',
				'',
				'#',
				'?',
				'/%00',
			],
			...[
				'/health/live',
				'/health/ready',
				'/metrics',
				'/..',
				'/api/../metrics',
				`${path};a=b`,
				`${path}\\`,
				`.${path}`,
			],
			...['/%zz', `${path}%`, `/${'a/'.repeat(500)}`, `/${'%2e'.repeat(300)}`, '//metrics', `${path}%00`],
		),
		inUrl(anyText).map((text) => `/${text}`),
		inUrl(anyText).map((text) => path + text),
	);
}

const headerValues: Record<string, readonly string[]> = {
	'content-type': [
		...['application/json', 'application/json; charset=utf-16', 'APPLICATION/JSON;x="', 'application/json,text/plain'],
		...['text/plain', 'multipart/form-data', 'application/json\tx', ';', '/', 'application/', '__proto__', '*/*'],
	],
	'content-encoding': ['gzip', 'identity', 'br, gzip', 'IDENTITY', ''],
	'content-length': [
		'0',
		'1',
		'12',
		'-1',
		'+1',
		'0x10',
		'1e3',
		'1.0',
		' 5',
		'99999999999999999999',
		'9007199254740993',
		'1, 1',
		'',
	],
	'transfer-encoding': ['chunked', 'gzip, chunked', 'chunked, gzip', 'identity', 'CHUNKED', 'xchunked', ''],
	'accept-encoding': [
		'gzip',
		'br;q=0, *;q=0',
		'identity;q=0',
		'gzip;q=x',
		'*',
		',,,',
		'gzip;q=1e400',
		';q=1',
		'br,gzip,deflate,zstd',
	],
	'if-none-match': ['*', '"', '""', 'W/"a"', '"a", "b', '"\u00e9"', 'W/', '"'.repeat(999)],
	accept: ['text/html', 'application/json;q=0', ''],
	expect: ['100-continue', '200-ok', ''],
	connection: ['close', 'keep-alive', 'Upgrade', 'close, keep-alive', 'content-length', 'x, ,y'],
	upgrade: ['h2c', 'websocket', ''],
	'http2-settings': ['AAMAAABkAAQCAAAAAAIAAAAA'],
	te: ['trailers', 'chunked'],
	trailer: ['content-length', 'x'],
	host: ['', 'a, b', 'a\tb', '[::1]:0', 'a:99999', '%00', 'x'.repeat(300)],
	origin: ['null', 'https://evil.example'],
	cookie: ['api_key=x', '\u00ff'],
	authorization: ['Bearer x', 'Basic !'],
	range: ['bytes=0-0', 'bytes=-1'],
	'x-forwarded-for': [
		'203.0.113.7',
		'::1%lo',
		'fe80::1%25/64',
		'unknown',
		',,',
		'1.2.3.4:5',
		'[::1]',
		'2001:db8::/64',
		'x'.repeat(400),
	],
	'x-http-method-override': ['DELETE'],
	'x-request-id': ['forged'],
	'accept-version': ['1.0.0', 'x'],
};

/** Header lines of a request, some of them invalid. */
export const anyHeaders: fc.Arbitrary<readonly string[]> = fc.array(
	fc.oneof(
		fc
			.constantFrom(...Object.keys(headerValues))
			.chain((name) => fc.constantFrom(...(headerValues[name] ?? [''])).map((value) => `${name}: ${value}`)),
		fc
			.constantFrom(...Object.keys(headerValues))
			.chain((name) => fc.string({ unit: 'binary-ascii', maxLength: 20 }).map((value) => `${name}: ${value}`)),
		fc.tuple(fc.string({ maxLength: 10 }), fc.string({ maxLength: 20 })).map(([name, value]) => `${name}: ${value}`),
	),
	{ maxLength: 6 },
);

/** Bytes with a few random changes: truncated, removed, inserted or repeated. */
export function withFaults(bytes: Buffer): fc.Arbitrary<Buffer> {
	const fault = fc.tuple(
		fc.constantFrom('cut', 'remove', 'insert', 'replace', 'double'),
		fc.nat({ max: bytes.length }),
		fc.oneof(
			fc.uint8Array({ maxLength: 6 }),
			fc.constantFrom('\r\n', '\n', '\0', ' ', ':', '\r\n\r\n', '%', '"', '\t'),
		),
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
