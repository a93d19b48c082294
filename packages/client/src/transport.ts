import { ContactsConnectionError, retryAfterOf } from './errors.js';

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

/** No response arrived. A fetch may reject with any value, and an abort with any reason. */
interface Failure {
	error: unknown;
}

/** Statuses that a later attempt may resolve. A 500 is retried only with `Retry-After`. */
const temporaryStatuses = new Set([429, 502, 503, 504]);

/** Maximum delay of a timer in milliseconds. */
const maxTimeoutMs = 2 ** 31 - 1;

/** Milliseconds before the second attempt when the response has no `Retry-After`. Each further wait is twice as long. */
const firstWaitMs = 250;

/**
 * A `fetch` that adds the credentials and retries. Retries are safe because every operation is idempotent. It waits as long
 * as `Retry-After` says. If the call would time out before that, it returns the last response at once.
 *
 * @throws ContactsConnectionError when no response arrives; the abort reason when the caller's signal is aborted
 * @throws TypeError for invalid options
 */
export function createTransport(options: ClientOptions): (request: Request) => Promise<Response> {
	const { project, apiKey, attempts = 5, timeout = 30_000 } = options;
	const base = readBaseUrl(options.baseUrl);
	if (typeof project !== 'string' || project === '') throw new TypeError('project must be the code of a project');
	if (typeof apiKey !== 'string' || apiKey === '') throw new TypeError('apiKey must be a key of the project');
	if (!(attempts >= 1)) throw new TypeError('attempts must be 1 or more');
	// Beyond the maximum a timer would fire at once.
	if (!(Number.isInteger(timeout) && timeout >= 1 && timeout <= maxTimeoutMs))
		throw new TypeError(`timeout must be an integer from 1 to ${maxTimeoutMs}`);
	const send = options.fetch ?? ((url, init) => fetch(url, init));

	async function attempt(url: URL, init: RequestInit): Promise<Response | Failure> {
		try {
			const response = await send(url, init);
			// Read the body here, so that a connection that breaks in the middle of a response counts as a failed attempt.
			const body = await response.arrayBuffer();
			const headers = new Headers(response.headers);
			for (const name of ['content-encoding', 'transfer-encoding']) headers.delete(name);
			headers.set('content-length', String(body.byteLength));
			const { status } = response;
			return new Response(status === 204 || status === 304 ? null : body, { status, headers });
		} catch (error) {
			return { error };
		}
	}

	return async (request) => {
		const url = new URL(request.url);
		url.searchParams.set('project', project);
		url.searchParams.set('api_key', apiKey);
		const timeUp = AbortSignal.timeout(timeout);
		const end = performance.now() + timeout;
		const init: RequestInit = {
			method: request.method,
			headers: request.headers,
			signal: AbortSignal.any([request.signal, timeUp]),
			// Follow no redirect: the URL contains the key.
			redirect: 'manual',
		};
		if (request.body !== null) init.body = await request.text();

		for (let made = 1; ; made++) {
			const result = await attempt(url, init);
			if (!(result instanceof Response)) {
				request.signal.throwIfAborted();
				if (timeUp.aborted) throw new ContactsConnectionError(base.origin, 'timeout');
			}
			const wait = waitAfter(result, made);
			const over = made >= attempts || performance.now() + (wait ?? 0) >= end;
			if (wait === undefined || over) {
				if (result instanceof Response) return result;
				throw new ContactsConnectionError(base.origin, reasonOf(result));
			}
			await delay(wait, request.signal);
			request.signal.throwIfAborted();
		}
	};
}

/** Resolves after this time, or when the signal is aborted. */
function delay(ms: number, signal: AbortSignal): Promise<void> {
	return new Promise((resolve) => {
		const end = () => {
			clearTimeout(timer);
			signal.removeEventListener('abort', end);
			resolve();
		};
		const timer = setTimeout(end, ms);
		signal.addEventListener('abort', end);
		if (signal.aborted) end();
	});
}

/** Returns the milliseconds before the next attempt; undefined when a retry would not help. */
function waitAfter(result: Response | Failure, made: number): number | undefined {
	// Clients that were refused together must not return together.
	const jitter = Math.random() * 100;
	const backoff = firstWaitMs * 2 ** (made - 1) + jitter;
	if (!(result instanceof Response)) return backoff;
	const asked = retryAfterOf(result);
	if (!temporaryStatuses.has(result.status) && (result.status !== 500 || asked === undefined)) return undefined;
	// A time that is over is no reason to make all attempts at once.
	return asked ? asked * 1000 + jitter : backoff;
}

/** Returns the system's error code. The message is not used, because it may contain the URL. */
function reasonOf({ error }: Failure): string {
	const { cause = error } = Object(error) as { cause?: unknown };
	const { code } = Object(cause) as { code?: unknown };
	return typeof code === 'string' ? code : 'the connection failed';
}

function readBaseUrl(text: string): URL {
	const url = URL.canParse(text) ? new URL(text) : undefined;
	const usable =
		url !== undefined && /^https?:$/.test(url.protocol) && url.username === '' && url.search === '' && url.hash === '';
	if (!usable) throw new TypeError('baseUrl must be an address like https://contacts.example.com');
	return url;
}
