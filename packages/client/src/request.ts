import { ContactsConnectionError, ContactsError, isProblem, retryAfterOf } from './errors.js';

export interface ClientOptions {
	/** Address of the service, or of the gateway in front of it, such as `https://contacts.example.com`. */
	baseUrl: string;
	/** Code of your project. */
	project: string;
	/** One of the project's keys. */
	apiKey: string;
	/** Maximum number of attempts in a call, 1 or more. Default: 5. */
	attempts?: number;
	/** Time limit of a call in milliseconds, 1 to 2,147,483,647, including all attempts and waits. Default: 30,000. */
	timeout?: number;
	/** Replaces the `fetch` of the platform. */
	fetch?: (url: URL, init: RequestInit) => Promise<Response>;
}

interface Operation<Body> {
	method: 'GET' | 'POST';
	path: string;
	query?: Record<string, string | number | bigint | undefined>;
	body?: object;
	signal?: AbortSignal | undefined;
	/** Whether this is the body of a successful response: something else, such as a proxy, may respond with 200 and JSON too. */
	isBody(body: Partial<Body>): boolean;
}

/** @throws ContactsError, ContactsConnectionError; the abort reason when the caller's signal is aborted */
type Send = <Body>(operation: Operation<Body>) => Promise<{ body: Body; headers: Headers }>;

interface Received {
	response: Response;
	/** Undefined: a page of a proxy, half a response or none. */
	body: unknown;
}

/** No response arrived. A fetch may reject with any value. */
interface Failure {
	error: unknown;
}

/** Refusals that a later attempt may resolve, whoever sends them. Nginx sends 499 for a request that its client has given up. */
const temporaryRefusals = new Set([408, 425, 429, 499]);

/** Maximum delay of a timer in milliseconds. Beyond it, a timer would fire at once. */
const maxTimeoutMs = 2 ** 31 - 1;

/** Milliseconds until a response must have begun, or that of a write has ended: a service responds within 5 seconds. */
const responseTimeoutMs = 6000;

/**
 * Milliseconds after which a write that was given up can no longer be saved, unless the network failed for seconds: it may have
 * reached the service at the last moment. See docs/bot.md.
 */
const settleMs = 6000;

/** Milliseconds before the second attempt when the response has no `Retry-After`. Each further wait is twice as long. */
const firstWaitMs = 250;

/**
 * Returns a function that adds the credentials, sends a request, and retries. Retries are safe because every operation is
 * idempotent. It waits as long as `Retry-After` says. If the call would time out before that, it fails at once.
 *
 * @throws TypeError for invalid options
 */
export function createSend(options: ClientOptions): Send {
	const { project, apiKey, attempts = 5, timeout = 30_000 } = options;
	const send = options.fetch ?? ((url: URL, init: RequestInit) => fetch(url, init));
	const base = URL.canParse(options.baseUrl) ? new URL(options.baseUrl) : undefined;
	if (base === undefined || !/^https?:$/.test(base.protocol) || base.username + base.search + base.hash !== '')
		throw new TypeError('baseUrl must be an address like https://contacts.example.com');
	if (typeof project !== 'string' || project === '') throw new TypeError('project must be the code of a project');
	if (typeof apiKey !== 'string' || apiKey === '') throw new TypeError('apiKey must be a key of the project');
	if (!(attempts >= 1)) throw new TypeError('attempts must be 1 or more');
	if (!(Number.isInteger(timeout) && timeout >= 1 && timeout <= maxTimeoutMs))
		throw new TypeError(`timeout must be an integer from 1 to ${maxTimeoutMs}`);

	return async ({ method, path, query, body, signal, isBody }) => {
		const url = new URL(base.href.replace(/\/$/, '') + path);
		for (const [name, value] of Object.entries({ ...query, project, api_key: apiKey }))
			if (value !== undefined) url.searchParams.set(name, String(value));
		const end = performance.now() + timeout;
		// Follow no redirect: the URL contains the key.
		const init: RequestInit = { method, redirect: 'manual' };
		if (body !== undefined) {
			init.headers = { 'content-type': 'application/json' };
			init.body = JSON.stringify(body);
		}
		signal?.throwIfAborted();
		for (let made = 1; ; made++) {
			const result = await attempt((ending) => send(url, { ...init, signal: ending }), method, end, signal);
			signal?.throwIfAborted();
			if (isSuccess(result, isBody)) return { body: result.body, headers: result.response.headers };
			const wait = waitAfter(result, made, method === 'POST' ? settleMs : 0);
			if (wait === undefined || made >= attempts || performance.now() + wait >= end) {
				if ('error' in result) throw new ContactsConnectionError(base.origin, reasonOf(result));
				throw new ContactsError(result.response, result.body);
			}
			await delay(wait, signal);
			signal?.throwIfAborted();
		}
	};
}

/**
 * Reads the body too: a connection that breaks in the middle of a response is a failed attempt.
 *
 * @param end when the call times out, by the clock of `performance`
 */
async function attempt(
	send: (ending: AbortSignal) => Promise<Response>,
	method: Operation<unknown>['method'],
	end: number,
	signal: AbortSignal | undefined,
): Promise<Received | Failure> {
	// AbortSignal.any() would leave an entry in a long-lived signal for each attempt.
	const ending = new AbortController();
	const stop = () => ending.abort();
	const stopIn = (ms: number) => setTimeout(() => ending.abort(new DOMException('timeout', 'TimeoutError')), ms);
	let timer = stopIn(Math.min(responseTimeoutMs, end - performance.now()));
	signal?.addEventListener('abort', stop);
	try {
		const response = await send(ending.signal);
		if (method === 'GET') {
			clearTimeout(timer);
			timer = stopIn(end - performance.now());
		}
		return { response, body: parse(await response.text()) };
	} catch (error) {
		return { error };
	} finally {
		clearTimeout(timer);
		signal?.removeEventListener('abort', stop);
	}
}

function parse(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return undefined;
	}
}

function isSuccess<Body>(
	result: Received | Failure,
	isBody: (body: Partial<Body>) => boolean,
): result is Received & { body: Body } {
	if ('error' in result || result.response.status !== 200) return false;
	return typeof result.body === 'object' && result.body !== null && isBody(result.body);
}

/** Resolves after this time, or when the signal is aborted. */
function delay(ms: number, signal: AbortSignal | undefined): Promise<void> {
	return new Promise((resolve) => {
		const end = () => {
			clearTimeout(timer);
			signal?.removeEventListener('abort', end);
			resolve();
		};
		const timer = setTimeout(end, ms);
		signal?.addEventListener('abort', end);
	});
}

/**
 * Returns the milliseconds before the next attempt; undefined when a retry would not help. Something in between that responds for
 * the service, with whatever status, may have passed the request on before, or may do so later: the outcome is open, as without a
 * response. Only with a refusal of its own it has not.
 *
 * @param settlesInMs after which time the attempt can no longer be saved. Before, it could overwrite what the caller sends after
 *   this call.
 */
function waitAfter(result: Received | Failure, made: number, settlesInMs: number): number | undefined {
	// Clients that were refused together must not return together.
	const jitter = Math.random() * 100;
	const backoff = firstWaitMs * 2 ** (made - 1) + jitter;
	if ('error' in result) return Math.max(backoff, settlesInMs);
	const { response, body } = result;
	const { status } = response;
	const asked = retryAfterOf(response);
	const isOwn = isProblem(response, body);
	if (status >= 400 && status < 500 && !temporaryRefusals.has(status)) return undefined;
	if (isOwn && status === 500 && asked === undefined) return undefined;
	// Zero seconds are no reason to make all attempts at once.
	const wait = asked ? asked * 1000 + jitter : backoff;
	return isOwn && status !== 408 ? wait : Math.max(wait, settlesInMs);
}

/** Returns the system's error code. The message is not used, because it may contain the URL. */
function reasonOf({ error }: Failure): string {
	if (error instanceof DOMException && error.name === 'TimeoutError') return 'timeout';
	const { cause = error } = Object(error) as { cause?: unknown };
	const { code } = Object(cause) as { code?: unknown };
	return typeof code === 'string' ? code : 'the connection failed';
}
