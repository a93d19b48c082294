import { isDeepStrictEqual } from 'node:util';
import type { Service } from '@contacts/common/process/run.js';
import type { TObject } from '@sinclair/typebox';
import fc from 'fast-check';
import { afterAll, afterEach, describe, expect } from 'vitest';
import { anyHeaders, anyMethod, anyQuery, anyTarget, withFaults } from './any-request.js';
import { addProject, startTestApp, type TestApp } from './app.js';
import type { Endpoint } from './endpoint.js';
import { brokenBodies, malformedRequests } from './malformed-requests.js';
import { codeOf, exchange, expectPromised, type RawAnswer } from './raw-http.js';
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
	const good = goodCredentials.join('&');
	const input = {} as AnyInput;
	/** With short timeouts: on a busy machine it may give up on a complete request too. */
	let hasty: TestApp;
	async function sendTo({ url }: TestApp, bytes: string | Buffer): Promise<RawAnswer[]> {
		const responses = await exchange(url, Buffer.from(bytes as string, 'latin1'));
		for (const response of responses) expectPromised(response);
		// After a pause of the machine the service may shed load. Clients then repeat their requests.
		return responses.some(({ status }) => status === 503) ? sendTo({ url } as TestApp, bytes) : responses;
	}
	const send = (bytes: string | Buffer) => sendTo(input.app, bytes);
	input.send = send;
	const end = 'Connection: close\r\n\r\n';
	const bodyLines = (body: string) =>
		`Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`;
	const whole = (query: string) =>
		`${endpoint.method} ${endpoint.path}?${query} HTTP/1.1\r\nHost: a\r\n${bodyLines(endpoint.body ?? '')}${end}${endpoint.body ?? ''}`;

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

	const statusesOf = (responses: RawAnswer[]) => responses.map(({ status }) => status);
	afterEach(async () => {
		for (const app of [input.app, hasty]) {
			await expect.poll(async () => statusesOf(await sendTo(app, whole(good)))).toEqual([200]);
			const errors = app.log.filter((line) => {
				const { level, status } = JSON.parse(line) as { level: string; status?: number };
				return ['error', 'fatal'].includes(level) && status !== 503;
			});
			expect(errors).toEqual([]);
		}
	});

	describe('client errors for malformed HTTP', () => {
		const broken = endpoint.body === undefined ? [] : brokenBodies(endpoint, good);
		test.each([...malformedRequests(endpoint, good), ...broken])('%s', async (_, bytes, statuses, code) => {
			let responses: RawAnswer[] = [];
			const sendAgain = async () => {
				responses = await sendTo(hasty, bytes);
				return statusesOf(responses);
			};
			await expect.poll(sendAgain).toEqual(statuses);
			const last = responses.at(-1);
			if (code !== undefined && last !== undefined) expect(codeOf(last)).toBe(code);
		});
	});

	test('any query string gets 401 for its credentials, then 400 for any other error', async () => {
		const check = async (query: string) => {
			expect(one(await send(whole(query))).status).toBe(expectedStatus(query, endpoint));
		};
		await holds(anyQuery(goodCredentials), check);
	});

	test('any method and any target get 405 only where another method is allowed', async () => {
		const check = async ([method, target, query]: [string, string, string]) => {
			const responses = await send(`${method} ${target}${query} HTTP/1.1\r\nHost: a\r\n${end}`);
			const { status, headers } = one(responses);
			if (status === 405) expect(headers.get('allow')).not.toBe(method);
		};
		await holds(fc.tuple(anyMethod, anyTarget(endpoint.path), fc.constantFrom('', `?${good}`)), check);
	});

	test('any headers, valid or not, get a response of the contract', async () => {
		const check = async ([lines, query]: [readonly string[], string]) => {
			const body = endpoint.body ?? '';
			const head = `${endpoint.method} ${endpoint.path}?${query} HTTP/1.1\r\nHost: a\r\n`;
			const responses = await sendTo(
				hasty,
				`${head}${lines.join('\r\n')}${lines.length > 0 ? '\r\n' : ''}${bodyLines(body)}${end}${body}`,
			);
			expect(responses.length).toBeGreaterThan(0);
		};
		await holds(fc.tuple(anyHeaders, fc.constantFrom(good, `${good}x`)), check);
	});

	test('a valid request with a few changed bytes gets a response of the contract', async () => {
		const check = async (bytes: Buffer) => {
			const responses = await sendTo(hasty, bytes);
			if (bytes.length > 0) expect(responses.length).toBeGreaterThan(0);
		};
		await holds(withFaults(Buffer.from(whole(good))), check, 20);
	});

	more(input);
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
): Promise<void> {
	const several = fc.array(requests, { minLength: 1, maxLength: 16, size: 'max' });
	await fc.assert(
		fc.asyncProperty(several, async (all) => {
			await Promise.all(all.map(check));
		}),
		{ numRuns },
	);
}

/** Returns the only response. */
export function one(responses: RawAnswer[]): RawAnswer {
	expect(responses).toHaveLength(1);
	return responses[0] as RawAnswer;
}
