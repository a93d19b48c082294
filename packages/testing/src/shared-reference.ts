import type { Service } from '@contacts/common/process/run.js';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { TObject } from '@sinclair/typebox';
import type { OpenAPIV3_1 } from 'openapi-types';
import { afterAll, describe, expect } from 'vitest';
import { addProject, startTestApp, type TestApp, type TestAppOptions } from './app.js';
import type { TestDatabase } from './database.js';
import { documented, responseOf } from './documented.js';
import { expectCommonHeaders, expectProblem } from './expect-problem.js';
import { database, test } from './test.js';

export interface ReferenceCase {
	/** The name of the case. */
	name: string;
	status: number;
	code?: string;
	/** The query after the valid credentials. It may use a response from before `arrange`. */
	query?: string | ((app: TestApp) => Promise<string>);
	init?: RequestInit;
	/** Sends the request to a service with these options, instead of the common one. */
	app?: TestAppOptions;
	/** Called before the request. */
	arrange?(database: TestDatabase, app: TestApp): Promise<void>;
}

export interface DocumentedOperation {
	method: 'GET' | 'POST';
	path: string;
	body?: string;
	cases: ReferenceCase[];
	/** Statuses that only the gateway returns. */
	ofGateway?: number[];
}

const credentials = 'project=partner&api_key=partner-key';
const json = { 'content-type': 'application/json' };

/**
 * Tests the API reference of a service: the document, the real responses that it describes, and the page.
 *
 * @param file the document as a file of the repository
 */
export function describeReference<V extends TObject>(
	service: Service<V>,
	file: URL,
	operations: readonly DocumentedOperation[],
): void {
	let app: TestApp;
	let document: OpenAPIV3_1.Document;

	test.beforeAll(async () => {
		await addProject(database.sql, 'partner', 'partner-key');
		app = await startTestApp(service, database.url);
		document = (await (await app.fetch('/openapi.json')).json()) as OpenAPIV3_1.Document;
	});
	afterAll(() => app?.close());

	describe('the document', () => {
		test('matches the file in the repository (vitest -u updates it)', async () => {
			await expect(`${JSON.stringify(document, null, '\t')}\n`).toMatchFileSnapshot(file.pathname);
		});

		test('is valid OpenAPI 3.1', async () => {
			const validator = new Validator();
			const result = await validator.validate(structuredClone(document) as unknown as Record<string, unknown>);
			expect(result.errors ?? []).toEqual([]);
			expect([result.valid, validator.version]).toEqual([true, '3.1']);
		});

		test('has only these operations, both credentials, and no host name', () => {
			const paths = Object.entries(document.paths ?? {}).map(([name, item]) => [name, Object.keys(item ?? {}).join()]);
			expect(paths.sort()).toEqual(operations.map(({ path, method }) => [path, method.toLowerCase()]).sort());
			expect(document.security).toEqual([{ project: [], api_key: [] }]);
			expect(document.servers).toEqual([{ url: '/' }]);
		});
	});

	describe.each(operations)('$method $path', ({ method, path, body, cases, ofGateway = [] }) => {
		const usual: RequestInit = { method, ...(body === undefined ? {} : { body, headers: json }) };
		const all: ReferenceCase[] = [
			{ name: 'wrong credentials', status: 401, code: 'unauthorized', query: '&api_key=twice' },
			{ name: 'another method', status: 405, code: 'method_not_allowed', init: { method: 'DELETE' } },
			{
				name: 'no database',
				status: 500,
				code: 'database_error',
				app: { database: { url: 'postgres://a:b@127.0.0.1:1/none' } },
			},
			{ name: 'too many wait', status: 503, code: 'overloaded', app: { database: { maxCallers: 0 } } },
			...cases,
		];
		const slow = { limits: { headersTimeoutMs: 100, requestTimeoutMs: 200, checkIntervalMs: 25 } };
		const raw: [number, string, string, TestAppOptions][] = [
			[408, 'invalid_query', 'GET / HTTP/1.1\r\nHost: a\r\n', slow],
			[431, 'payload_too_large', `GET /?${'x'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`, {}],
			[400, 'invalid_query', 'GARBAGE\r\n\r\n', {}],
		];

		test('has examples that match its own schemas', () => {
			const reference = documented(document, path);
			const { post, get } = document.paths?.[path] ?? {};
			const request = (post?.requestBody as OpenAPIV3_1.RequestBodyObject | undefined)?.content ?? {};
			const responses = Object.values((post ?? get)?.responses ?? {}).map(
				(response) => (response as OpenAPIV3_1.ResponseObject).content ?? {},
			);
			let checked = 0;
			const at = `#/paths/${path.replaceAll('/', '~1')}/post/requestBody/content/application~1json/schema`;
			for (const content of [request, ...responses]) {
				for (const { examples = {}, schema } of Object.values(content)) {
					for (const example of Object.values(examples)) {
						const pointer = content === request ? at : (schema as OpenAPIV3_1.ReferenceObject).$ref;
						reference.expectValid(pointer, (example as OpenAPIV3_1.ExampleObject).value);
						checked++;
					}
				}
			}
			expect(checked).toBeGreaterThan(10);
		});

		test.each(all.map((each) => [each.status, each.code, each.name, each] as const))(
			'a real response matches the document: %i %s: %s',
			async (status, code, _, each) => {
				const used = each.app === undefined ? app : await startTestApp(service, database.url, each.app);
				const query = typeof each.query === 'function' ? await each.query(used) : (each.query ?? '');
				await each.arrange?.(database, used);
				const response = await used.fetch(`${path}?${credentials}${query}`, { ...usual, ...each.init });
				expect(response.status).toBe(status);
				if (code !== undefined) expect(await response.clone().json()).toMatchObject({ code });
				await documented(document, path).expect(response);
				if (used !== app) await used.close();
			},
		);

		test.each(raw)(
			'a real response matches the document: %i %s before there is a route',
			async (status, code, bytes, options) => {
				const used = await startTestApp(service, database.url, options);
				const response = responseOf(await used.raw(bytes));
				expect(response.status).toBe(status);
				expect(await response.clone().json()).toMatchObject({ code });
				await documented(document, path).expect(response);
				await used.close();
			},
		);

		test('every status and code in the document was seen in a real response, except for internal errors', async () => {
			const reference = documented(document, path);
			await reference.expect(await app.fetch(`${path}/`));
			const seen = [...all, ...raw.map(([status, code]) => ({ status, code })), { status: 404, code: 'not_found' }];
			const statuses = new Set([...seen.map(({ status }) => status), ...ofGateway]);
			expect([...statuses].sort()).toEqual([...reference.statuses].sort());
			const problems = new Set(seen.flatMap(({ status, code }) => (code === undefined ? [] : [`${status} ${code}`])));
			const described = reference.problems.filter((problem) => !ofGateway.includes(Number.parseInt(problem, 10)));
			expect([...problems, '500 internal_error'].sort()).toEqual([...new Set(described)].sort());
		});
	});

	describe('GET /openapi.json and GET /docs', () => {
		const files = ['/docs/scalar.js', '/docs/start.js', '/docs/scalar.LICENSE', '/docs/icon.svg'];

		test.each(['/openapi.json', '/docs', '/docs/', ...files])(
			'%s responds without credentials, supports revalidation, and allows no other method',
			async (each) => {
				const response = await app.fetch(each);
				expect(response.status).toBe(200);
				expectCommonHeaders(response, /^public, no-cache$/);
				const tag = String(response.headers.get('etag'));
				const again = await app.fetch(each, { headers: { 'if-none-match': tag } });
				expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', tag]);
				const other = await app.fetch(each, { method: 'POST', body: '{}', headers: json });
				expect(other.headers.get('allow')).toBe('GET');
				await expectProblem(other, 405, 'method_not_allowed');
			},
		);

		test('/ redirects to /docs', async () => {
			const response = await app.fetch('/');
			expect([response.status, response.headers.get('location')]).toEqual([302, '/docs']);
			expectCommonHeaders(response);
		});

		test('the page can load from and connect to its own service only, and its script is sent compressed', async () => {
			const response = await app.fetch('/docs');
			expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
			const policy = String(response.headers.get('content-security-policy'));
			expect(policy).toContain("default-src 'none'; script-src 'self';");
			expect(policy.replace("style-src 'self' 'unsafe-inline'", '')).not.toMatch(/unsafe|https?:|\*/);
			const html = await response.text();
			expect(html).not.toMatch(/https?:\/\/|<script>|style=|TITLE/);
			for (const [, link] of html.matchAll(/(?:src|href)="(\/[^"]*)"/g))
				expect((await app.fetch(String(link))).status).toBe(200);
			for (const encoding of ['gzip', 'br']) {
				const script = await app.fetch('/docs/scalar.js', { headers: { 'accept-encoding': encoding } });
				expect(script.headers.get('content-encoding')).toBe(encoding);
				// Small enough for a phone.
				expect(Number(script.headers.get('content-length'))).toBeLessThan(1_300_000);
			}
		});
	});
}
