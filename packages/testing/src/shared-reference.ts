import { createHash } from 'node:crypto';
import type { Service } from '@contacts/common/process/run.js';
import { problemCodes } from '@contacts/common/schemas/problem.js';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { TObject } from '@sinclair/typebox';
import { lexer, type Tokens, walkTokens } from 'marked';
import type { OpenAPIV3_1 } from 'openapi-types';
import { afterAll, describe, expect } from 'vitest';
import { addProject, startTestApp, type TestApp, type TestAppOptions } from './app.js';
import type { TestDatabase } from './database.js';
import { type Documented, documented, responseOf } from './documented.js';
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

export interface ReferenceOptions {
	method: 'GET' | 'POST';
	path: string;
	body?: string;
	/** The other operations of the document, which have separate tests. */
	others?: Record<string, 'get' | 'post'>;
	/** The document as a file of the repository. */
	file: URL;
	cases: ReferenceCase[];
	/** Statuses that only the gateway returns. */
	ofGateway?: number[];
}

/** Of dist/browser/standalone.js in @scalar/api-reference 1.72.1. */
const scalarSha256 = 'bf091006bdc3af6067af77c2f534812e3e633e94a94e87138069f570f33b762c';

const credentials = 'project=partner&api_key=partner-key';

/** Tests the API reference of a service: the document, the real responses that it describes, and the page. */
export function describeReference<V extends TObject>(service: Service<V>, options: ReferenceOptions): void {
	const { method, path, body, file, cases, ofGateway = [], others = {} } = options;
	let app: TestApp;
	let reference: Documented;
	const json = { 'content-type': 'application/json' };
	const usual: RequestInit = { method, ...(body === undefined ? {} : { body, headers: json }) };

	test.beforeAll(async () => {
		await addProject(database.sql, 'partner', 'partner-key');
		app = await startTestApp(service, database.url);
		reference = documented((await (await app.fetch('/openapi.json')).json()) as OpenAPIV3_1.Document, path);
	});
	afterAll(() => app?.close());

	describe('the document', () => {
		test('matches the file in the repository (vitest -u updates it)', async () => {
			await expect(`${JSON.stringify(reference.document, null, '\t')}\n`).toMatchFileSnapshot(file.pathname);
		});

		test('is valid OpenAPI 3.1', async () => {
			const validator = new Validator();
			const result = await validator.validate(
				structuredClone(reference.document) as unknown as Record<string, unknown>,
			);
			expect(result.errors ?? []).toEqual([]);
			expect([result.valid, validator.version]).toEqual([true, '3.1']);
		});

		test('has only these operations, both credentials, and no host name', async () => {
			const operations = Object.entries(reference.document.paths ?? {});
			expect(Object.fromEntries(operations.map(([name, item]) => [name, Object.keys(item ?? {}).join()]))).toEqual({
				[path]: method.toLowerCase(),
				...others,
			});
			expect(reference.document.security).toEqual([{ project: [], api_key: [] }]);
			expect(reference.document.servers).toEqual([{ url: '/' }]);
		});

		test('lists all error codes', () => {
			const { Problem } = reference.document.components?.schemas ?? {};
			const { code } = (Problem as OpenAPIV3_1.NonArraySchemaObject).properties ?? {};
			expect((code as OpenAPIV3_1.NonArraySchemaObject).enum).toEqual(problemCodes);
		});

		test('has examples that match its own schemas', () => {
			const { post } = reference.document.paths?.[path] ?? {};
			const operation = post ?? reference.document.paths?.[path]?.get;
			const request = (post?.requestBody as OpenAPIV3_1.RequestBodyObject | undefined)?.content ?? {};
			const responses = Object.values(operation?.responses ?? {}).map(
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
	});

	describe('a real response matches the document:', () => {
		const silent = { database: { url: 'postgres://a:b@127.0.0.1:1/none' } };
		const slow = { limits: { headersTimeoutMs: 100, requestTimeoutMs: 200, checkIntervalMs: 25 } };
		const raw: [number, string, string, TestAppOptions][] = [
			[408, 'invalid_query', 'GET / HTTP/1.1\r\nHost: a\r\n', slow],
			[431, 'payload_too_large', `GET /?${'x'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`, {}],
			[400, 'invalid_query', 'GARBAGE\r\n\r\n', {}],
		];
		const all: ReferenceCase[] = [
			{ name: 'wrong credentials', status: 401, code: 'unauthorized', query: '&api_key=twice' },
			{ name: 'another method', status: 405, code: 'method_not_allowed', init: { method: 'DELETE' } },
			{ name: 'no database', status: 500, code: 'database_error', app: silent },
			{ name: 'too many wait', status: 503, code: 'overloaded', app: { database: { maxCallers: 0 } } },
			...cases,
		];

		test.each(all.map((each) => [each.status, each.code, each.name, each] as const))(
			'%i %s: %s',
			async (status, code, _, each) => {
				const used = each.app === undefined ? app : await startTestApp(service, database.url, each.app);
				const query = typeof each.query === 'function' ? await each.query(used) : (each.query ?? '');
				await each.arrange?.(database, used);
				const response = await used.fetch(`${path}?${credentials}${query}`, { ...usual, ...each.init });
				expect(response.status).toBe(status);
				if (code !== undefined) expect(await response.clone().json()).toMatchObject({ code });
				await reference.expect(response);
				if (used !== app) await used.close();
			},
		);

		test.each(raw)('%i %s before there is a route', async (status, code, bytes, limits) => {
			const used = await startTestApp(service, database.url, limits);
			const response = responseOf(await used.raw(bytes));
			expect(response.status).toBe(status);
			expect(await response.clone().json()).toMatchObject({ code });
			await reference.expect(response);
			await used.close();
		});

		test('404 not_found', async () => {
			await reference.expect(await app.fetch(`${path}/`));
		});

		test('for every described status and code, except for internal errors', () => {
			const seen = [...all, ...raw.map(([status, code]) => ({ status, code }))];
			const statuses = [...seen.map(({ status }) => status), 404, ...ofGateway];
			expect([...new Set(statuses)].sort()).toEqual([...reference.statuses].sort());
			const problems = seen.filter(({ code }) => code !== undefined).map(({ status, code }) => `${status} ${code}`);
			const others = reference.problems.filter((problem) => !ofGateway.includes(Number.parseInt(problem, 10)));
			expect([...new Set([...problems, '404 not_found', '500 internal_error'])].sort()).toEqual(
				[...new Set(others)].sort(),
			);
		});
	});

	describe('GET /openapi.json and GET /docs', () => {
		const files = ['/docs/scalar.js', '/docs/start.js', '/docs/scalar.LICENSE', '/docs/icon.svg'];
		const all = ['/openapi.json', '/docs', '/docs/', ...files];

		test.each(all)('%s responds without credentials, and supports revalidation', async (each) => {
			const response = await app.fetch(each);
			expect(response.status).toBe(200);
			expectCommonHeaders(response, /^public, no-cache$/);
			const tag = String(response.headers.get('etag'));
			const again = await app.fetch(each, { headers: { 'if-none-match': tag } });
			expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', tag]);
		});

		test.each(all)('%s allows no other method', async (each) => {
			const response = await app.fetch(each, { method: 'POST', body: '{}', headers: json });
			expect(response.headers.get('allow')).toBe('GET');
			await expectProblem(response, 405, 'method_not_allowed');
		});

		test.each(['/', '/docs/guide'])('%s redirects to /docs', async (each) => {
			const response = await app.fetch(each);
			expect([response.status, response.headers.get('location')]).toEqual([302, '/docs']);
			expectCommonHeaders(response);
		});

		test.each([
			'/docs/index.html',
			'/docs/scalar.js.br',
			'/docs/page.html',
			'/docs/../package.json',
			'/docs/%2e%2e/package.json',
			'/docs/json',
		])('%s does not exist', async (each) => {
			expect(await app.raw(`GET ${each} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)).toMatch(/^HTTP\/1.1 404 /);
		});

		test.each(['identity', 'gzip', 'br'])(
			'the script of the page is the published file, sent as %s',
			async (encoding) => {
				const response = await app.fetch('/docs/scalar.js', { headers: { 'accept-encoding': encoding } });
				expect(response.headers.get('content-encoding') ?? 'identity').toBe(encoding);
				const bytes = Buffer.from(await response.arrayBuffer());
				expect(createHash('sha256').update(bytes).digest('hex')).toBe(scalarSha256);
				// Small enough for a phone.
				if (encoding !== 'identity') expect(Number(response.headers.get('content-length'))).toBeLessThan(1_300_000);
			},
		);

		test('the page can load from and connect to its own service only', async () => {
			const response = await app.fetch('/docs');
			expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
			const policy = String(response.headers.get('content-security-policy'));
			expect(policy).toContain("default-src 'none'; script-src 'self';");
			expect(policy.replace("style-src 'self' 'unsafe-inline'", '')).not.toMatch(/unsafe|https?:|\*/);
			const html = await response.text();
			expect(html).not.toMatch(/https?:\/\/|<script>|style=|TITLE/);
			for (const [, link] of html.matchAll(/(?:src|href)="(\/[^"]*)"/g)) {
				expect((await app.fetch(String(link))).status).toBe(200);
			}
		});

		test('no sentence of a description begins a list by accident', async () => {
			const texts: string[] = [];
			JSON.stringify(reference.document, (name, value: unknown) => {
				if (name === 'description' && typeof value === 'string') texts.push(value);
				return value;
			});
			expect(texts.length).toBeGreaterThan(40);
			for (const text of texts) {
				const lists: Tokens.List[] = [];
				void walkTokens(lexer(text), (token) => {
					if (token.type === 'list') lists.push(token as Tokens.List);
				});
				for (const { ordered, start, raw } of lists) {
					// A list of ours starts with 1, after an empty line. A line that begins with "400." starts a list in its paragraph.
					if (ordered) expect(start, raw).toBe(1);
					expect(text === raw || text.includes(`\n\n${raw.trimEnd()}`), raw).toBe(true);
				}
			}
		});
	});
}
