import { isDeepStrictEqual } from 'node:util';
import type { Service } from '@contacts/common/process/run.js';
import type { TObject } from '@sinclair/typebox';
import fc from 'fast-check';
import { afterAll, afterEach, expect } from 'vitest';
import { anyRequest, requestBytes } from './any-request.js';
import { addProject, startTestApp, type TestApp } from './app.js';
import type { Endpoint } from './endpoint.js';
import { exchange, expectPromised, type RawAnswer } from './raw-http.js';
import { database, test } from './test.js';

export interface AnyInput {
	app: TestApp;
	/** Sends bytes, and checks every response to them against all guarantees for responses. */
	send(bytes: string | Buffer): Promise<RawAnswer[]>;
}

export const goodCredentials = ['project=good', 'api_key=good-key'] as const;

/** The timeouts of a service that is sent incomplete requests, in milliseconds. */
const limits = { headersTimeoutMs: 200, requestTimeoutMs: 300, checkIntervalMs: 20 };

/**
 * The guarantees of both services for any input: a response of the contract, never a server error, and a normal response to
 * the next request. A failure prints the seed and the smallest input that fast-check has found.
 *
 * @param more properties of one service only
 */
export function describeAnyInput<V extends TObject>(
	service: Service<V>,
	endpoint: Endpoint,
	more: (input: AnyInput) => void = () => undefined,
): void {
	const input = {} as AnyInput;
	/** With short timeouts: on a busy machine it may give up on a complete request too. */
	let hasty: TestApp;
	async function sendTo({ url }: Pick<TestApp, 'url'>, bytes: string | Buffer): Promise<RawAnswer[]> {
		const responses = await exchange(url, Buffer.from(bytes as string, 'latin1'));
		for (const response of responses) expectPromised(response);
		// After a pause of the machine the service may shed load. Clients then repeat their requests.
		return responses.some(({ status }) => status === 503) ? sendTo({ url }, bytes) : responses;
	}
	input.send = (bytes) => sendTo(input.app, bytes);
	const right = requestBytes(endpoint, goodCredentials.join('&'));
	const statusesOf = (responses: RawAnswer[]) => responses.map(({ status }) => status);

	test.beforeAll(async () => {
		await addProject(database.sql, 'good', 'good-key');
		const options = {
			trustProxy: ['loopback'],
			// The limits have separate tests. Here they would hide other responses.
			environment: { RATE_LIMIT_PER_SECOND: '1000000', RATE_LIMIT_BURST: '1000000' },
		};
		input.app = await startTestApp(service, database.url, options);
		hasty = await startTestApp(service, database.url, { ...options, limits });
	});
	afterAll(() => Promise.all([input.app?.close(), hasty?.close()]));

	afterEach(async () => {
		for (const app of [input.app, hasty]) {
			await expect.poll(async () => statusesOf(await sendTo(app, right))).toEqual([200]);
			const errors = app.log.filter((line) => {
				const { level, status } = JSON.parse(line) as { level: string; status?: number };
				return ['error', 'fatal'].includes(level) && status !== 503;
			});
			expect(errors).toEqual([]);
		}
	});

	test('any request gets a response of the contract; any query a 401 for its credentials, then a 400 for any other error', async () => {
		await holds(
			anyRequest(endpoint, goodCredentials),
			async ({ bytes, query, isIncomplete }) => {
				const responses = await sendTo(isIncomplete ? hasty : input.app, bytes);
				if (bytes.length > 0) expect(responses.length).toBeGreaterThan(0);
				if (query !== undefined) expect(statusesOf(responses)).toEqual([expectedStatus(query, endpoint)]);
			},
			100,
		);
	});

	test.each<[string, string, number[]]>([
		['garbage after a request', `${keptAlive(right)}GARBAGE\r\n\r\n`, [200, 400]],
		['garbage after three requests', `${keptAlive(right).repeat(3)}\0\0\0\0`, [200, 200, 200, 400]],
		['another request after garbage', `GARBAGE\r\n\r\n${right}`, [400]],
		['a request after one that closes', `${right}${right}`, [200]],
		['half a request after a whole one', `${keptAlive(right)}GET / HT`, [200, 408]],
		['HTTP/1.0 without a host', `${endpoint.method} ${endpoint.path} HTTP/1.0\r\n\r\n`, [401]],
		['2,500 headers', `GET /nowhere HTTP/1.1\r\nHost: a\r\n${'A:b\r\n'.repeat(2500)}Connection: close\r\n\r\n`, [404]],
		...(endpoint.body === undefined ? [] : brokenBodies(right)),
	])('the responses to %s have the expected statuses', async (_, bytes, statuses) => {
		await expect.poll(async () => statusesOf(await sendTo(hasty, bytes))).toEqual(statuses);
	});

	more(input);
}

const keptAlive = (request: Buffer) => String(request).replace('\r\nConnection: close', '');

/** Bodies with a malformed transfer. */
function brokenBodies(right: Buffer): [string, string, number[]][] {
	const [head = ''] = String(right).split('\r\nContent-Length');
	const close = '\r\nConnection: close\r\n\r\n';
	const chunked = (chunks: string) => `${head}\r\nTransfer-Encoding: chunked${close}${chunks}`;
	return [
		['a length beyond 2^53', `${head}\r\nContent-Length: 9007199254740993${close}`, [413]],
		['a body that breaks off', `${head}\r\nContent-Length: 99${close}{"chat_id":7}`, [408]],
		['a chunk that is longer than it says', chunked('2\r\n{}{}\r\n0\r\n\r\n'), [400]],
		['an extension of a chunk that is too large', chunked(`2;${'x'.repeat(17_000)}\r\n{}\r\n0\r\n\r\n`), [413]],
	];
}

/** The rules for a query, implemented independently. */
function expectedStatus(query: string, { parameters = [] }: Endpoint): 200 | 400 | 401 {
	// An octet that is invalid in a URL: the HTTP parser rejects the request before anything else reads it.
	if (!/^[!-~]*$/.test(query)) return 400;
	const decode = (text: string) => {
		try {
			return decodeURIComponent(text.replaceAll('+', ' '));
		} catch {
			return undefined;
		}
	};
	const pairs = query
		.split('&')
		.filter((pair) => pair !== '')
		.map((pair) => pair.split(/=(.*)/s, 2).map(decode));
	const valuesOf = (target: string) => pairs.flatMap(([name, value = '']) => (name === target ? [value] : []));
	const given = goodCredentials.map((pair) => pair.split('=') as [string, string]);
	if (!given.every(([name, value]) => isDeepStrictEqual(valuesOf(name), [value]))) return 401;
	const names = new Set([...given.map(([name]) => name), ...parameters]);
	if (pairs.some((pair) => pair.includes(undefined) || !names.has(String(pair[0])))) return 400;
	// Each parameter of the services is a positive integer.
	const wrong = parameters.some(
		(name) => valuesOf(name).length > 1 || valuesOf(name).some((value) => !/^[1-9]\d{0,17}$/.test(value)),
	);
	return wrong ? 400 : 200;
}

/** Checks a property of single requests, with several of them at once. */
export async function holds<T>(
	requests: fc.Arbitrary<T>,
	check: (request: T) => Promise<void>,
	numRuns = 60,
	examples: readonly T[] = [],
): Promise<void> {
	const several = fc.array(requests, { minLength: 1, maxLength: 16, size: 'max' });
	await fc.assert(
		fc.asyncProperty(several, async (all) => {
			await Promise.all(all.map(check));
		}),
		{ numRuns, examples: examples.map((example): [T[]] => [[example]]) },
	);
}

/** Returns the only response. */
export function one(responses: RawAnswer[]): RawAnswer {
	expect(responses).toHaveLength(1);
	return responses[0] as RawAnswer;
}
