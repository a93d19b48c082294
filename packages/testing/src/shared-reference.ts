import type { Service } from '@contacts/common/process/run.js';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { TObject } from '@sinclair/typebox';
import type { OpenAPIV3_1 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect } from 'vitest';
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

export interface DocumentedOperation {
	method: 'GET' | 'POST';
	path: string;
	body?: string;
	cases: ReferenceCase[];
	/** Errors that only the gateway returns, by status and code. */
	ofGateway?: string[];
}

const credentials = 'project=partner&api_key=partner-key';
/** The ID of a heading on the page. */
const slugOf = (heading: string) =>
	heading
		.toLowerCase()
		.replace(/[^\p{L}\p{N}\s_-]/gu, '')
		.replaceAll(' ', '-');
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
			// Of two keys that are required together, Postman and Bruno would import the first alone.
			expect(document.security).toEqual([{ api_key: [] }]);
			for (const item of Object.values(document.paths ?? {}))
				for (const operation of Object.values(item ?? {}) as OpenAPIV3_1.OperationObject[])
					expect(operation.parameters).toContainEqual(
						expect.objectContaining({ name: 'project', in: 'query', required: true }),
					);
			expect(document.servers).toEqual([{ url: '/' }]);
		});
	});

	test('each link in its texts leads to a heading of the guide, or to what the service serves', async () => {
		const texts = JSON.stringify(document);
		const headings = [...(document.info.description ?? '').matchAll(/^#+ (.*)$/gm)].map(([, text]) =>
			slugOf(String(text)),
		);
		const links = [...texts.matchAll(/\]\(([^)]*)\)/g)].map(([, link]) => String(link));
		expect(links.length).toBeGreaterThan(2);
		const served = new Map(await Promise.all(links.map(async (link) => [link, await isServed(link)] as const)));
		const isDead = (link: string) => (link.startsWith('#') ? !headings.includes(link.slice(1)) : !served.get(link));
		expect(links.filter(isDead)).toEqual([]);
	});

	/** Whether the page can lead to it. The page is at /docs. */
	async function isServed(link: string): Promise<boolean> {
		if (link.startsWith('#')) return false;
		const { pathname, origin } = new URL(link, 'http://page/docs');
		return origin === 'http://page' && (await app.fetch(pathname)).status === 200;
	}

	describe.each(operations)('$method $path', ({ method, path, body, cases, ofGateway = [] }) => {
		let reference: Documented;
		beforeAll(() => {
			reference = documented(document, path);
		});
		const usual: RequestInit = { method, ...(body === undefined ? {} : { body, headers: json }) };
		const all: ReferenceCase[] = [
			{ name: 'wrong credentials', status: 401, code: 'unauthorized', query: '&api_key=twice' },
			{ name: 'an unknown parameter', status: 400, code: 'invalid_query', query: '&unknown=1' },
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

		test('has examples that match its own schemas', () => reference.expectExamples());

		test.each(all.map((each) => [each.status, each.code, each.name, each] as const))(
			'a real response matches the document: %i %s: %s',
			async (status, code, _, each) => {
				const used = each.app === undefined ? app : await startTestApp(service, database.url, each.app);
				const query = typeof each.query === 'function' ? await each.query(used) : (each.query ?? '');
				await each.arrange?.(database, used);
				const response = await used.fetch(`${path}?${credentials}${query}`, { ...usual, ...each.init });
				expect(response.status).toBe(status);
				if (code !== undefined) await expectProblem(response.clone(), status, code);
				if ([429, 500, 503].includes(status)) expect(response.headers.get('retry-after')).toMatch(/^[1-9]/);
				await reference.expect(response);
				if (used !== app) await used.close();
			},
		);

		test('every status and code in the document was seen in a real response, except for internal errors', async () => {
			await reference.expect(await app.fetch(`${path}/`));
			const limits = { headersTimeoutMs: 100, requestTimeoutMs: 200, checkIntervalMs: 25 };
			const hasty = await startTestApp(service, database.url, { limits });
			await reference.expect(responseOf(await hasty.raw('GET / HTTP/1.1\r\nHost: a\r\n')));
			await hasty.close();
			await reference.expect(responseOf(await app.raw(`GET /?${'x'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`)));
			expect(reference.unseen()).toEqual([...ofGateway, '500 internal_error']);
		});
	});

	describe('GET /openapi.json and GET /docs', () => {
		const files = ['/docs/scalar.js', '/docs/start.js', '/docs/style.css', '/docs/scalar.LICENSE', '/docs/icon.svg'];

		test.each(['/openapi.json', '/docs', '/docs/', ...files])(
			'%s responds without credentials, supports revalidation, and allows no other method',
			async (each) => {
				const response = await app.fetch(each);
				expect(response.status).toBe(200);
				expectCommonHeaders(response, /^public, no-cache$/);
				const tag = String(response.headers.get('etag'));
				const again = await app.fetch(each, { headers: { 'if-none-match': tag } });
				expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', tag]);
				const head = await app.fetch(each, { method: 'HEAD' });
				expect([head.status, head.headers.get('etag'), await head.text()]).toEqual([200, tag, '']);
				expect(Number(head.headers.get('content-length'))).toBeGreaterThan(100);
				const other = await app.fetch(each, { method: 'POST', body: '{}', headers: json });
				expect(other.headers.get('allow')).toBe('GET, HEAD');
				await expectProblem(other, 405, 'method_not_allowed');
			},
		);

		test('/ redirects to /docs', async () => {
			const response = await app.fetch('/');
			expect([response.status, response.headers.get('location')]).toEqual([302, '/docs']);
			expect((await app.fetch('/', { method: 'HEAD' })).status).toBe(302);
			expectCommonHeaders(response);
		});

		test('the page can load from and connect to its own service only, and its script is sent compressed', async () => {
			const response = await app.fetch('/docs');
			expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
			const policy = String(response.headers.get('content-security-policy'));
			expect(policy).toContain("default-src 'none'; script-src 'self';");
			expect(policy.replace("style-src 'self' 'unsafe-inline'", '')).not.toMatch(/unsafe|https?:|\*/);
			const html = await response.text();
			expect(html).not.toMatch(/<(script|link|img)[^>]*https?:|<script>|style=|TITLE|GUIDE/);
			// The guide can be read before any script has arrived, and the type of an error leads to its section.
			expect(html).toContain('<h2 id="errors">Errors</h2>');
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
