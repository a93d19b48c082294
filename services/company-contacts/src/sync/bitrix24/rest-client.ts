import { type BucketPolicy, decide } from '../../rate-limit/token-bucket.js';
import type { Clock } from '../clock.js';
import { Bitrix24Error, type ErrorKind, kindOf } from './errors.js';
import { post, type RawAnswer } from './transport.js';

/** The portal's own buckets are 50 and 2 a second, or 250 and 5 (Enterprise): some headroom is left in each. */
export const policies: Record<'standard' | 'enterprise', BucketPolicy> = {
	standard: { perSecond: 1.9, burst: 40 },
	enterprise: { perSecond: 4.8, burst: 225 },
};

export interface Answer {
	result: unknown;
	/** When the portal began to answer, by its own clock; milliseconds since the epoch. */
	at: number | undefined;
	total: number | undefined;
}

export interface Command {
	method: string;
	params: Record<string, string | number>;
}

export interface RestClient {
	/**
	 * @param read makes something of the answer; where it throws a Bitrix24Error, the call is retried like any other
	 * @throws Bitrix24Error after the retries that its kind deserves
	 */
	call<T>(method: string, params: Record<string, unknown>, read: (answer: Answer) => T): Promise<T>;
	/** Up to 50 commands in one request. A command that failed has its error in the place of its answer. */
	batch(commands: Command[]): Promise<(Answer | Bitrix24Error)[]>;
	/** Where the bucket stands; given to the next client it keeps a restart from being a new burst. */
	readonly arrival: number;
	readonly requests: number;
}

export interface RestClientOptions {
	/** `https://portal/rest/<user>/<secret>/`; it never appears in an error or a log. */
	webhookUrl: string;
	policy: BucketPolicy;
	clock: Clock;
	arrival?: number;
	/** Called before each request with where the bucket stands then: kept, it makes a restart no new burst. */
	onSpend?: (arrival: number) => Promise<void>;
	signal?: AbortSignal;
	/** Milliseconds within which an answer must be there; the portal itself gives up after 60 seconds. */
	timeout?: number;
	/** Called for each failed attempt. */
	onError?: (error: Bitrix24Error) => void;
}

/** How often the same call is sent before it is given up, by kind of error. */
const attempts: Record<ErrorKind, number> = {
	retry: 6,
	slow_down: 9,
	hold: 1,
	stop: 1,
	not_found: 1,
	access_denied: 1,
};

/** The shortest time for which a method is left alone that has used up its time. */
const shortestHold = 30_000;

/**
 * Calls the REST interface of Bitrix24 through an inbound webhook, one request at a time, within the portal's limits. All
 * methods that are called only read, so each may be sent again.
 */
export function createRestClient(options: RestClientOptions): RestClient {
	const { policy, clock, signal, timeout = 65_000, onError = () => undefined } = options;
	const holds = new Map<string, number>();
	let arrival = options.arrival ?? 0;
	let requests = 0;

	async function waitForToken(): Promise<void> {
		for (;;) {
			const [decision, next] = decide(policy, arrival, clock.now());
			arrival = next;
			if (decision.admitted) return options.onSpend?.(arrival);
			await clock.sleep(decision.wait, signal);
		}
	}

	function fail(kind: ErrorKind, code: string, method: string, answer?: RawAnswer): Bitrix24Error {
		if (kind !== 'hold') return new Bitrix24Error(kind, code, method);
		const until = Math.max((answer?.resetAt ?? 0) + 1000, clock.now() + shortestHold);
		holds.set(method, until);
		return new Bitrix24Error(kind, code, method, until);
	}

	async function attempt(method: string, params: Record<string, unknown>): Promise<RawAnswer> {
		const held = holds.get(method) ?? 0;
		if (held > clock.now()) throw new Bitrix24Error('hold', 'OPERATION_TIME_LIMIT', method, held);
		await waitForToken();
		requests++;
		const answer = await post(options.webhookUrl, method, params, timeout, signal);
		if (answer.error !== undefined)
			throw fail(kindOf(answer.error, answer.status), answer.error || `http_${answer.status}`, method, answer);
		return answer;
	}

	async function call<T>(method: string, params: Record<string, unknown>, read: (answer: Answer) => T): Promise<T> {
		for (let tries = 1; ; tries++) {
			try {
				return read(await attempt(method, params));
			} catch (error) {
				if (!(error instanceof Bitrix24Error)) throw error;
				onError(error);
				if (tries >= attempts[error.kind]) throw error;
				if (error.kind === 'slow_down')
					arrival = Math.max(arrival, clock.now() + (policy.burst * 1000) / policy.perSecond);
				await clock.sleep(pauseAfter(error.kind, tries), signal);
			}
		}
	}

	return {
		call,
		async batch(commands) {
			const named = commands.map((command, index) => [`c${index}`, command] as const);
			const cmd = Object.fromEntries(named.map(([name, command]) => [name, queryOf(command)]));
			const { results, errors, at } = await call('batch', { halt: 0, cmd }, (answer) => ({
				results: mapOf(mapOf(answer.result).result),
				errors: mapOf(mapOf(answer.result).result_error),
				at: answer.at,
			}));
			return named.map(([name, { method }]) => {
				const error = errors[name] as { error?: unknown } | undefined;
				if (error !== undefined) {
					const code = String(error.error ?? '');
					return fail(kindOf(code, 400), code || 'batch_error', method);
				}
				if (!(name in results)) return new Bitrix24Error('retry', 'no_answer_in_batch', method);
				return { result: results[name], at, total: undefined };
			});
		},
		get arrival() {
			return arrival;
		},
		get requests() {
			return requests;
		},
	};
}

/** Milliseconds; the random part keeps several clients of one portal from coming back in step. */
function pauseAfter(kind: ErrorKind, tries: number): number {
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
