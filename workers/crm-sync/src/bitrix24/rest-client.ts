import type { Clock } from './clock.js';
import { Bitrix24Error, type ErrorKind, kindOf, kindOfCommand } from './errors.js';
import { codeOf, createPauses, post, type RawResponse, timesOf } from './transport.js';

/** A token bucket holds `burst` requests and receives `perSecond` new ones a second. */
export interface RequestPolicy {
	perSecond: number;
	burst: number;
}

/** The portal's own buckets are 50 and 2 a second, or 250 and 5 (Enterprise). These values leave some headroom. */
export const policies: Record<'standard' | 'enterprise', RequestPolicy> = {
	standard: { perSecond: 1.9, burst: 40 },
	enterprise: { perSecond: 4.8, burst: 225 },
};

export interface RestResponse {
	result: unknown;
	/** The portal's clock at the beginning of the call; milliseconds since the epoch. */
	at: number | undefined;
	total: number | undefined;
}

export interface Command {
	method: string;
	params: Record<string, string | number>;
}

/** The result of a command in a batch. */
export type Outcome = RestResponse | Bitrix24Error;

/** The portal refuses longer batches. */
export const maxCommands = 50;

export interface RestClient {
	/**
	 * @param read parses the response. If it throws a Bitrix24Error, the call is retried like any other
	 * @throws Bitrix24Error after the retries of its kind
	 */
	call<T>(method: string, params: Record<string, unknown>, read: (response: RestResponse) => T): Promise<T>;
	/**
	 * Up to `maxCommands` in one request. A failed command returns its error instead of a response, after the retries of the
	 * error's kind. The other responses are kept even after a `pause` or a `stop`.
	 */
	batch(commands: Command[]): Promise<Outcome[]>;
	/** The state of the token bucket. The next client starts with it, so that a restart allows no new burst. */
	readonly arrival: number;
	readonly requests: number;
}

interface RestClientOptions {
	/** `https://portal/rest/<user>/<secret>/`; it never appears in an error or a log. */
	webhookUrl: string;
	policy: RequestPolicy;
	clock: Clock;
	arrival?: number;
	/** Called before each request with the new state of the token bucket, so that it can be saved. */
	onRequest?: (arrival: number) => Promise<void>;
	signal?: AbortSignal;
	/** The portal itself gives up after 60 seconds. */
	timeoutMs?: number;
	/** Called for each failed attempt. For commands of a batch, called once with each code. */
	onError?: (error: Bitrix24Error) => void;
}

/** Maximum number of attempts of a call, by kind of error. */
const maxAttempts: Record<ErrorKind, number> = {
	retry: 6,
	slow_down: 9,
	pause: 1,
	stop: 1,
	not_found: 1,
	access_denied: 1,
	unclear: 1,
};

/** Maximum number of attempts of a batch command with a temporary error. The other commands of the batch wait for it. */
const maxCommandAttempts: Partial<Record<ErrorKind, number>> = { retry: 3, slow_down: maxAttempts.slow_down };

/**
 * Calls the REST interface of Bitrix24 through an inbound webhook, one request at a time, within the portal's limits. All
 * its methods only read, so each may be sent again.
 */
export function createRestClient(options: RestClientOptions): RestClient {
	const { policy, clock, signal, timeoutMs = 65_000, onError = () => undefined } = options;
	const pauses = createPauses(clock);
	let arrival = options.arrival ?? 0;
	let requests = 0;

	/** The generic cell rate algorithm: `arrival` is the theoretical arrival time of the next request. */
	async function waitForToken(): Promise<void> {
		const interval = 1000 / policy.perSecond;
		for (;;) {
			const now = clock.now();
			// A later arrival than that of an empty bucket was saved before the clock was set back, or under another plan.
			arrival = Math.min(Math.max(arrival, now), now + policy.burst * interval);
			const wait = Math.ceil(arrival - now - (policy.burst - 1) * interval);
			if (wait <= 0) break;
			await clock.sleep(wait, signal);
		}
		arrival += interval;
		await options.onRequest?.(arrival);
	}

	function fail(kind: ErrorKind, code: string, method: string): Bitrix24Error {
		if (kind !== 'pause') return new Bitrix24Error(kind, code, method);
		return new Bitrix24Error(kind, code, method, pauses.begin(method));
	}

	function throwIfPaused(method: string): void {
		const until = pauses.endOf(method);
		if (until !== undefined) throw new Bitrix24Error('pause', 'OPERATION_TIME_LIMIT', method, until);
	}

	async function attempt(method: string, params: Record<string, unknown>): Promise<RawResponse> {
		throwIfPaused(method);
		await waitForToken();
		requests++;
		const response = await post(options.webhookUrl, method, params, timeoutMs, signal);
		const { error, status, resetInMs } = response;
		if (error !== undefined) throw fail(kindOf(error, status), error || `http_${status}`, method);
		pauses.noteReset(method, resetInMs);
		return response;
	}

	async function call<T>(
		method: string,
		params: Record<string, unknown>,
		read: (response: RestResponse) => T,
	): Promise<T> {
		for (let tries = 1; ; tries++) {
			try {
				return read(await attempt(method, params));
			} catch (error) {
				if (!(error instanceof Bitrix24Error)) throw error;
				onError(error);
				if (tries >= maxAttempts[error.kind]) throw error;
				await waitBeforeRetry(error.kind, tries);
			}
		}
	}

	async function waitBeforeRetry(kind: ErrorKind, tries: number): Promise<void> {
		if (kind === 'slow_down') arrival = Math.max(arrival, clock.now() + (policy.burst * 1000) / policy.perSecond);
		await clock.sleep(retryDelayMs(kind, tries), signal);
	}

	/** One request with these commands, by name. */
	async function send(commands: Map<string, Command>): Promise<Map<string, Outcome>> {
		const cmd = Object.fromEntries([...commands].map(([name, command]) => [name, queryOf(command)]));
		const { results, errors, times, at } = await call('batch', { halt: 0, cmd }, ({ result, at }) => ({
			results: mapOf(mapOf(result).result),
			errors: mapOf(mapOf(result).result_error),
			times: mapOf(mapOf(result).result_time),
			at,
		}));
		const outcomes = new Map<string, Outcome>();
		for (const [name, { method }] of commands) {
			pauses.noteReset(method, timesOf(times[name]).resetInMs);
			if (name in errors) {
				const code = codeOf(mapOf(errors[name]).error);
				outcomes.set(name, fail(kindOfCommand(code), code || 'batch_error', method));
			} else if (name in results) outcomes.set(name, { result: results[name], at, total: undefined });
			else outcomes.set(name, new Bitrix24Error('retry', 'no_response_in_batch', method));
		}
		return outcomes;
	}

	return {
		call,
		async batch(commands) {
			const outcomes = new Map<string, Outcome>();
			for (const { method } of commands) throwIfPaused(method);
			let left = new Map(commands.map((command, index) => [`c${index}`, command]));
			for (let tries = 1; left.size > 0; tries++) {
				const sent = await send(left);
				for (const [name, outcome] of sent) outcomes.set(name, outcome);
				const errors = [...sent.values()].filter((outcome) => outcome instanceof Bitrix24Error);
				const distinct = new Map(errors.map((error) => [error.code, error]));
				// A missing record is not an error of the portal.
				for (const error of distinct.values()) if (error.kind !== 'not_found') onError(error);
				if (errors.some(({ kind }) => kind === 'pause' || kind === 'stop')) break;
				left = new Map(
					[...left].filter(([name]) => {
						const outcome = sent.get(name);
						return outcome instanceof Bitrix24Error && tries < (maxCommandAttempts[outcome.kind] ?? 1);
					}),
				);
				const slow = errors.some((error) => error.kind === 'slow_down');
				if (left.size > 0) await waitBeforeRetry(slow ? 'slow_down' : 'retry', tries);
			}
			return [...outcomes.values()];
		},
		get arrival() {
			return arrival;
		},
		get requests() {
			return requests;
		},
	};
}

/** The random part keeps several clients of one portal from retrying at the same time. */
function retryDelayMs(kind: ErrorKind, tries: number): number {
	if (kind === 'slow_down') return 1500 * 1.5 ** (tries - 1) + Math.random() * 500;
	return 1000 * 2 ** (tries - 1) + Math.random() * 250;
}

function queryOf({ method, params }: Command): string {
	const query = new URLSearchParams();
	for (const [name, value] of Object.entries(params)) query.set(name, String(value));
	return `${method}?${query}`;
}

/** PHP writes an empty map as `[]`. */
function mapOf(value: unknown): Record<string, unknown> {
	return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}
