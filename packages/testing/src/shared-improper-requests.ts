import { METHODS } from 'node:http';
import { describe, expect } from 'vitest';
import type { Contract } from './endpoint.js';
import { expectProblem, expectRawProblem } from './expect-problem.js';
import { test } from './test.js';

/** The guarantees of both services for requests without a route and for malformed HTTP. */
export function describeImproperRequests({ app, endpoint, withApp, good }: Contract): void {
	describe('404', () => {
		test.each(['/api', '/api/unknown', `${endpoint.path}/`, `${endpoint.path}x`, endpoint.path.toUpperCase(), '//'])(
			'%s',
			async (path) => {
				await expectProblem(await app().fetch(`${path}?${good}`), 404, 'not_found');
			},
		);

		test('a body of any media type does not change the response', async () => {
			const response = await app().fetch('/unknown', {
				method: 'POST',
				body: 'x',
				headers: { 'content-type': 'text/plain' },
			});
			await expectProblem(response, 404, 'not_found');
		});
	});

	describe('405', () => {
		// CONNECT requests a tunnel, not a path.
		const others = METHODS.filter((method) => method !== endpoint.method && method !== 'CONNECT');

		test.each(others)('%s, with credentials or without', async (method) => {
			for (const query of ['', `?${good}`]) {
				const response = await app().raw(
					`${method} ${endpoint.path}${query} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx`,
				);
				expect(response).toMatch(/^HTTP\/1.1 405 Method Not Allowed\r\n/);
				expect(response).toMatch(new RegExp(`\r\nallow: ${endpoint.method}\r\n`, 'i'));
				expect(response).toMatch(/\r\ncontent-type: application\/problem\+json\r\n/i);
				if (method !== 'HEAD') expect(response).toContain('"code":"method_not_allowed"');
			}
		});

		test('for a percent-encoded path', async () => {
			const response = await app().fetch(endpoint.path.replace('_', '%5F'), { method: 'DELETE' });
			await expectProblem(response, 405, 'method_not_allowed');
		});
	});

	describe('400, 408, 413 and 431 for malformed requests', () => {
		const close = 'Connection: close\r\n\r\n';
		test.each<[string, string, number, string]>([
			['a bad request line', 'GARBAGE\r\n\r\n', 400, 'invalid_query'],
			['an unknown method', `BREW / HTTP/1.1\r\nHost: a\r\n${close}`, 400, 'invalid_query'],
			['no Host', `GET /health/live HTTP/1.1\r\n${close}`, 400, 'invalid_query'],
			['malformed percent-encoding in the path', `GET /api/%zz HTTP/1.1\r\nHost: a\r\n${close}`, 400, 'invalid_query'],
			[
				'headers that are too large',
				`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n${close}`,
				431,
				'payload_too_large',
			],
			[
				'a URL that is too long',
				`GET /?${'x'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n${close}`,
				431,
				'payload_too_large',
			],
			[
				'two lengths of a body',
				`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n${close}`,
				400,
				'invalid_query',
			],
		])('%s', async (_, bytes, status, code) => {
			expectRawProblem(await app().raw(bytes), status, code);
		});

		test('headers and bodies that arrive too slowly', async () => {
			await withApp({ limits: { headersTimeoutMs: 100, requestTimeoutMs: 200, checkIntervalMs: 25 } }, async (slow) => {
				expectRawProblem(await slow.raw('GET / HTTP/1.1\r\nHost: a\r\n'), 408, 'invalid_query');
				const body = await slow.raw(
					`POST ${endpoint.path}?${good} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{`,
				);
				if (endpoint.method === 'POST') expectRawProblem(body, 408, 'invalid_query');
			});
		});

		test('an unknown Expect header is ignored', async () => {
			const response = await app().raw(`GET /health/live HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n${close}`);
			expect(response).toMatch(/^HTTP\/1.1 200 /);
		});
	});
}
