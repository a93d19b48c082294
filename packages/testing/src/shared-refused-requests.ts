import { describe, expect } from 'vitest';
import type { Contract } from './endpoint.js';
import { requestLine } from './request-line.js';
import { test } from './test.js';

interface RefusedRequest {
	path?: string;
	query?: string;
	init?: RequestInit;
	status: number;
	code: string;
	fields?: string[];
}

const json = { 'content-type': 'application/json' };

const withBody: Record<string, RefusedRequest> = {
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

/** The guarantees of both services for the log lines of refused requests. */
export function describeRefusedRequests({ app, endpoint, good }: Contract): void {
	describe('the log line of a refused request has its code and the names of the fields, and nothing that was sent', () => {
		const cases: Record<string, RefusedRequest> = {
			'an unknown path': { path: '/canary', status: 404, code: 'not_found' },
			'another method': { init: { method: 'DELETE' }, status: 405, code: 'method_not_allowed' },
			'an unknown parameter': { query: '&canary=canary', status: 400, code: 'invalid_query', fields: ['query'] },
			'malformed percent-encoding': { query: '&canary=%zz', status: 400, code: 'invalid_query', fields: ['query'] },
			...(endpoint.body === undefined ? {} : withBody),
		};
		for (const name of endpoint.parameters ?? []) {
			const query = `&${name}=canary&${name}=canary`;
			cases[`a repeated ${name}`] = { query, status: 400, code: 'invalid_query', fields: [name] };
		}

		test.each(Object.entries(cases))(
			'%s',
			async (_, { path = endpoint.path, query = '', init, status, code, fields }) => {
				const { method, body } = endpoint;
				const standard = body === undefined ? { method } : { method, body, headers: json };
				const response = await app().fetch(`${path}?${good}${query}`, { ...standard, ...init });
				expect(response.status).toBe(status);
				const line = await requestLine(app(), response.headers.get('x-request-id'));
				expect(line).toMatchObject({
					status,
					code,
					...(fields === undefined ? {} : { fields: expect.arrayContaining(fields) }),
				});
				expect(JSON.stringify(line)).not.toContain('canary');
			},
		);

		test.each([
			['a bad request line', 'CANARY\r\n\r\n', 400, 'invalid_query'],
			['headers that are too large', `GET / HTTP/1.1\r\nX: ${'canary'.repeat(4000)}\r\n\r\n`, 431, 'payload_too_large'],
			[
				'a URL that the router can’t read',
				'GET /canary/%zz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
				400,
				'invalid_query',
			],
		])('%s', async (_, bytes, status, code) => {
			const id = /"request_id":"([^"]+)"/.exec(await app().raw(bytes))?.[1];
			const line = await requestLine(app(), id);
			expect(line).toMatchObject({ status, code, client: '127.0.0.1' });
			expect(JSON.stringify(line)).not.toMatch(/canary/i);
		});
	});
}
