import type { RejectionReason } from '@contacts/common/auth/key-ring.sql.js';
import type { Endpoint } from './endpoint.js';

/**
 * A request that a service refuses. Where a value of the client's choice can stand, it has `canary`, which neither the
 * response nor the log line may repeat.
 */
export interface RefusedRequest {
	/** Default: that of the endpoint. */
	path?: string;
	/** The whole query. Default: valid credentials. */
	query?: string;
	/** In place of the endpoint's method, body and headers. */
	init?: RequestInit;
	/** The bytes of the whole request, instead of all the above. */
	bytes?: string;
	status: number;
	code: string;
	/** The fields that the response and the log line name. */
	fields?: string[];
	/** What the log line alone has. */
	reason?: RejectionReason;
}

/** Credentials that are valid. */
export const good = 'project=good&api_key=good-key';

const wrongCredentials: [name: string, query: string, reason: RejectionReason][] = [
	['no credentials', '', 'missing_credential'],
	['no key', 'project=good', 'missing_credential'],
	['no project', 'api_key=good-key', 'missing_credential'],
	['a key in brackets', 'project=good&api_key[]=good-key', 'missing_credential'],
	['malformed percent-encoding in the name of the key', 'project=good&api_key%=good-key', 'missing_credential'],
	['an empty key', 'project=good&api_key=', 'empty_credential'],
	['an empty project', 'project=&api_key=good-key', 'empty_credential'],
	['a key given twice', `${good}&api_key=good-key`, 'repeated_credential'],
	['a project given twice', `${good}&project=good`, 'repeated_credential'],
	['a key that is not UTF-8', 'project=good&api_key=%FF', 'malformed_credential'],
	['malformed percent-encoding in the key', 'project=percent&api%5Fkey=100%', 'malformed_credential'],
	['malformed percent-encoding in the project', 'project=good%&api_key=good-key', 'malformed_credential'],
	['a wrong key', 'project=good&api_key=canary', 'unknown_key'],
	['a key that is too long', `project=good&api_key=${'k'.repeat(4000)}`, 'unknown_key'],
	['U+0000 in the key', 'project=good&api_key=good-key%00', 'unknown_key'],
	['the key of another project', 'project=good&api_key=here-key', 'unknown_key'],
	['a project without keys', 'project=keyless&api_key=good-key', 'unknown_key'],
	['an unknown project', 'project=canary&api_key=good-key', 'unknown_project'],
	['a disabled project', 'project=disabled&api_key=disabled-key', 'disabled_project'],
	['a revoked key', 'project=revoked&api_key=revoked-key', 'revoked_key'],
	['a key that expired long ago', 'project=ancient&api_key=ancient-key', 'expired_key'],
	['a key for the other service', 'project=elsewhere&api_key=elsewhere-key', 'key_of_other_service'],
	['an unknown parameter beside a wrong key', 'project=good&api_key=wrong&canary=1', 'unknown_key'],
	['malformed percent-encoding beside a wrong key', 'project=good&api_key=wrong&canary=%zz', 'unknown_key'],
];

/** The credentials of all kinds that get a 401. */
export const unauthorized: Record<string, RefusedRequest> = {
	...Object.fromEntries(
		wrongCredentials.map(([name, query, reason]) => [name, { query, reason, status: 401, code: 'unauthorized' }]),
	),
	'credentials in headers': {
		query: 'project=good',
		init: { headers: { authorization: 'Bearer good-key', 'x-api-key': 'good-key', cookie: 'api_key=good-key' } },
		status: 401,
		code: 'unauthorized',
		reason: 'missing_credential',
	},
};

const notFound = { status: 404, code: 'not_found' };
const invalidQuery = { status: 400, code: 'invalid_query' };
const json = { 'content-type': 'application/json' };

/** Queries that no endpoint accepts: no part of a query is silently ignored. */
const wrongParts = [
	...['canary=1', 'canary', '=canary', 'companyid=11', 'company_id%20=7', 'API_KEY=canary', 'api_key[]=canary'],
	...['project.x=canary', '__proto__=canary', 'constructor=canary', 'can%61ry=1', 'canary=1&canary=2'],
	...['x=%zz', 'x=%', '%zz=1', 'x=%C3&y=%A9', 'x=%ED%A0%80', 'x=%C0%AF', 'x=1&%u0041'],
];

/** What an endpoint refuses from a client with valid credentials. */
export function refusedBy({ method, path, body, parameters = [] }: Endpoint): Record<string, RefusedRequest> {
	const refused: Record<string, RefusedRequest> = {
		'a path with a slash at its end': { path: `${path}/`, ...notFound },
		'a path in capital letters': { path: path.toUpperCase(), ...notFound },
		'another method for an escaped path': {
			path: path.replace('_', '%5F'),
			init: { method: 'DELETE' },
			status: 405,
			code: 'method_not_allowed',
		},
		'another transfer encoding': {
			bytes: `${method} ${path}?${good} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: gzip\r\n\r\n`,
			...invalidQuery,
		},
	};
	for (const part of wrongParts) {
		refused[`${part} after the credentials`] = { query: `${good}&${part}`, ...invalidQuery, fields: ['query'] };
		refused[`${part} before the credentials`] = { query: `${part}&${good}`, ...invalidQuery, fields: ['query'] };
	}
	for (const name of parameters)
		refused[`a repeated ${name}`] = { query: `${good}&${name}=canary&${name}=canary`, ...invalidQuery, fields: [name] };
	return body === undefined ? refused : { ...refused, ...wrongBodies };
}

const wrongBodies: Record<string, RefusedRequest> = {
	'a wrong field': {
		init: { body: '{"chat_id":"canary"}', headers: json },
		status: 400,
		code: 'invalid_body',
		fields: ['chat_id'],
	},
	'an unknown field': {
		init: { body: '{"chat_id":1,"canary":1}', headers: json },
		status: 400,
		code: 'invalid_body',
		fields: ['body'],
	},
	'a body that is not JSON': { init: { body: '{"canary', headers: json }, status: 400, code: 'invalid_json' },
	'a body that is too large': {
		init: { body: 'canary'.repeat(5000), headers: json },
		status: 413,
		code: 'payload_too_large',
	},
	'another media type': {
		init: { body: 'canary', headers: { 'content-type': 'text/canary' } },
		status: 415,
		code: 'unsupported_media_type',
	},
};

/** What a service refuses before it has a route, or on the routes that take no parameters. */
export function refusedByServer(): Record<string, RefusedRequest> {
	const refused: Record<string, RefusedRequest> = {
		'an unknown path': { path: '/canary', ...notFound },
		'an unknown path with a body': {
			path: '/canary',
			init: { method: 'POST', body: 'canary', headers: { 'content-type': 'text/plain' } },
			...notFound,
		},
	};
	for (const path of [
		'/health/live',
		'/health/ready',
		'/metrics',
		'/openapi.json',
		'/docs',
		'/docs/start.js',
		'/docs/style.css',
	])
		for (const part of ['canary=1', good, 'x=%zz'])
			refused[`${path}?${part}`] = {
				path,
				query: part,
				init: { method: 'GET', body: null },
				...invalidQuery,
				fields: ['query'],
			};
	const close = 'Host: a\r\nConnection: close\r\n';
	const raw: [name: string, bytes: string, status: number, code: string][] = [
		['a bad request line', 'CANARY\r\n\r\n', 400, 'invalid_query'],
		['an unknown method', `CANARY / HTTP/1.1\r\n${close}\r\n`, 400, 'invalid_query'],
		['no host', 'GET /canary HTTP/1.1\r\nConnection: close\r\n\r\n', 400, 'invalid_query'],
		['malformed percent-encoding in the path', `GET /canary/%zz HTTP/1.1\r\n${close}\r\n`, 400, 'invalid_query'],
		['a tunnel', `CONNECT canary:443 HTTP/1.1\r\n${close}\r\n`, 400, 'invalid_query'],
		['NUL in a header', `GET / HTTP/1.1\r\n${close}X: can\0ary\r\n\r\n`, 400, 'invalid_query'],
		[
			'a length and chunks',
			`POST / HTTP/1.1\r\n${close}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
			400,
			'invalid_query',
		],
		[
			'headers that are too large',
			`GET / HTTP/1.1\r\n${close}X: ${'canary'.repeat(4000)}\r\n\r\n`,
			431,
			'payload_too_large',
		],
		['a URL that is too long', `GET /?${'canary'.repeat(4000)} HTTP/1.1\r\n${close}\r\n`, 431, 'payload_too_large'],
	];
	for (const [name, bytes, status, code] of raw) refused[name] = { bytes, status, code };
	return refused;
}
