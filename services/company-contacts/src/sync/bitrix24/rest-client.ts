import { type BucketPolicy, decide } from '../../rate-limit/token-bucket.js';
import type { Clock } from '../clock.js';
import { Bitrix24Error, type ErrorKind, kindOf, kindOfCommand } from './errors.js';
import { codeOf, post, type RawAnswer } from './transport.js';

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
	/**
	 * Up to 50 commands in one request. A command that failed has its error in the place of its answer, after the retries that
	 * the error's kind deserves: what came beside a hold or a stop is not lost.
	 */
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
	/** Called for each failed attempt; for commands of a batch once with each code. */
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
	unclear: 1,
};

/** How often commands of a batch are sent that failed and may pass: the others of the batch wait for them. */
const commandAttempts: Partial<Record<ErrorKind, number>> = { retry: 3, slow_down: attempts.slow_down };

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

	function throwIfHeld(method: string): void {
		const held = holds.get(method) ?? 0;
		if (held > clock.now()) throw new Bitrix24Error('hold', 'OPERATION_TIME_LIMIT', method, held);
	}

	async function attempt(method: string, params: Record<string, unknown>): Promise<RawAnswer> {
		throwIfHeld(method);
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
				await pause(error.kind, tries);
			}
		}
	}

	async function pause(kind: ErrorKind, tries: number): Promise<void> {
		if (kind === 'slow_down') arrival = Math.max(arrival, clock.now() + (policy.burst * 1000) / policy.perSecond);
		await clock.sleep(pauseAfter(kind, tries), signal);
	}

	/** One request with these commands, by name. */
	async function send(commands: Map<string, Command>): Promise<Map<string, Answer | Bitrix24Error>> {
		const cmd = Object.fromEntries([...commands].map(([name, command]) => [name, queryOf(command)]));
		const { results, errors, at } = await call('batch', { halt: 0, cmd }, (answer) => ({
			results: mapOf(mapOf(answer.result).result),
			errors: mapOf(mapOf(answer.result).result_error),
			at: answer.at,
		}));
		const outcomes = new Map<string, Answer | Bitrix24Error>();
		for (const [name, { method }] of commands) {
			if (name in errors) {
				const code = codeOf(mapOf(errors[name]).error);
				outcomes.set(name, fail(kindOfCommand(code), code || 'batch_error', method));
			} else if (name in results) outcomes.set(name, { result: results[name], at, total: undefined });
			else outcomes.set(name, new Bitrix24Error('retry', 'no_answer_in_batch', method));
		}
		return outcomes;
	}

	return {
		call,
		async batch(commands) {
			const outcomes = new Map<string, Answer | Bitrix24Error>();
			for (const { method } of commands) throwIfHeld(method);
			let left = new Map(commands.map((command, index) => [`c${index}`, command]));
			for (let tries = 1; left.size > 0; tries++) {
				const answered = await send(left);
				for (const [name, outcome] of answered) outcomes.set(name, outcome);
				const errors = [...answered.values()].filter((outcome) => outcome instanceof Bitrix24Error);
				const distinct = new Map(errors.map((error) => [error.code, error]));
				// That a record is gone is an answer.
				for (const error of distinct.values()) if (error.kind !== 'not_found') onError(error);
				if (errors.some(({ kind }) => kind === 'hold' || kind === 'stop')) break;
				left = new Map(
					[...left].filter(([name]) => {
						const outcome = answered.get(name);
						return outcome instanceof Bitrix24Error && tries < (commandAttempts[outcome.kind] ?? 1);
					}),
				);
				const slow = errors.some((error) => error.kind === 'slow_down');
				if (left.size > 0) await pause(slow ? 'slow_down' : 'retry', tries);
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
