import { type BucketPolicy, decide } from '@contacts/common/http/token-bucket.js';
import type { Clock } from '../clock.js';
import { isRow } from './contact.js';
import {
	Bitrix24Error,
	CutOffError,
	type ErrorKind,
	kindOf,
	kindOfCommand,
	kindOfPage,
	maxPauseMs,
	pauseMs,
	retries,
	retryDelayMs,
} from './errors.js';
import { type PostOptions, post } from './post.js';

/** The CRM's own buckets are 50 and 2 a second, or 250 and 5 (Enterprise). These values leave some headroom. */
export const policies: Record<'standard' | 'enterprise', BucketPolicy> = {
	standard: { perSecond: 1.9, burst: 40 },
	enterprise: { perSecond: 4.8, burst: 225 },
};

export interface CrmResponse {
	result: unknown;
	/** The CRM's clock at the beginning of the call; milliseconds since the epoch. */
	at: number | undefined;
	total: number | undefined;
	/** How long the method has worked within ten minutes. */
	operatingSeconds: number | undefined;
}

export interface Command {
	method: string;
	params: Record<string, string | number>;
}

/** The result of a command in a batch. */
export type CommandResult = { result: unknown } | Bitrix24Error;

/** The CRM refuses longer batches. */
export const maxCommands = 50;

export type CrmClient = ReturnType<typeof createCrmClient>;

interface CrmClientOptions extends PostOptions {
	policy: BucketPolicy;
	clock: Clock;
	/** Called for each failed attempt. For commands of a batch, called once with each code. */
	onError?: (error: Bitrix24Error) => void;
	/** Called before the client waits for the end of a rate-limit pause, and without an error after that. */
	onPause?: (error: Bitrix24Error | undefined) => Promise<void>;
}

/** A request with commands that is cut off so often is halved, if the CRM finishes anything. */
const maxCutOffs = 2;

/** A batch that takes less than this can be twice as long before the CRM cuts it off, after 60 seconds. */
const quickBatchMs = 20_000;

/** A command that concerns no record: the CRM finishes it unless it is down. */
const anyCommand: Command = { method: 'crm.item.fields', params: { entityTypeId: 3 } };

/** The status of a gateway before the CRM that has waited too long for it. */
const gatewayTimeout = 504;

/**
 * Calls the REST interface of Bitrix24 through an inbound webhook, one request at a time, within the CRM's limits. All its
 * methods only read, so each may be sent again.
 */
export function createCrmClient(options: CrmClientOptions) {
	const { policy, clock, signal, onError = () => undefined, onPause } = options;
	/** Where the token bucket stands. It begins empty: the process before may have just sent a burst. */
	let arrival = Number.POSITIVE_INFINITY;
	let requests = 0;
	/** How many commands a batch has: fewer than the CRM accepts, if it has not returned so many in time. */
	let batchSize = maxCommands;
	/** When the first pause of a method began since the CRM has last executed it, and when the latest one ends. */
	const pauses = new Map<string, { begin: number; end: number }>();

	async function waitForToken(): Promise<void> {
		for (let isAdmitted = false; !isAdmitted; ) {
			const [{ admitted, waitMs }, next] = decide(policy, arrival, clock.now());
			arrival = next;
			isAdmitted = admitted;
			if (!isAdmitted) await clock.sleep(waitMs, signal);
		}
	}

	function errorOf(kind: ErrorKind, code: string, method: string): Bitrix24Error {
		// The CRM's bucket is fuller than ours: ours counts as empty.
		if (kind === 'slow_down') arrival = Number.POSITIVE_INFINITY;
		if (kind !== 'pause') return new Bitrix24Error(kind, code, method);
		const now = clock.now();
		// A later beginning was stored before the clock was set back.
		const pause = { begin: Math.min(pauses.get(method)?.begin ?? now, now), end: now + pauseMs };
		pauses.set(method, pause);
		return new Bitrix24Error(kind, code, method, pause.end);
	}

	/** Waits for the end of a method's pause. @returns the error if it must not wait, or not any longer */
	async function waitForPause(method: string, waits: boolean): Promise<Bitrix24Error | undefined> {
		const { begin, end } = pauses.get(method) ?? { begin: 0, end: 0 };
		const waitMs = end - clock.now();
		// A longer pause began before the clock was set back.
		if (waitMs <= 0 || waitMs > pauseMs) return undefined;
		const error = new Bitrix24Error('pause', 'OPERATION_TIME_LIMIT', method, end);
		if (!waits || end - begin > maxPauseMs) return error;
		await onPause?.(error);
		await clock.sleep(waitMs, signal);
		await onPause?.(undefined);
		return undefined;
	}

	/** Waits before the next attempt. @returns whether there is one */
	async function waitToRetry({ kind, method }: Bitrix24Error, tries: number, waits: boolean): Promise<boolean> {
		if (kind === 'pause') return (await waitForPause(method, waits)) === undefined;
		if (tries >= (retries[kind]?.attempts ?? 1)) return false;
		await clock.sleep(retryDelayMs(kind, tries), signal);
		return true;
	}

	async function send(method: string, params: Record<string, unknown>): Promise<CrmResponse> {
		await waitForToken();
		requests++;
		const { status, body } = await post(options, method, params);
		const failure = (kind: ErrorKind, code: string) =>
			kind === 'retry' && status === gatewayTimeout
				? new CutOffError('retry', code, method)
				: errorOf(kind, code, method);
		if (body === undefined) throw failure(kindOfPage(status), `not_json_${status}`);
		if (!isRow(body)) throw new Bitrix24Error('retry', 'no_result', method);
		if ('error' in body) {
			const code = codeOf(body.error);
			throw failure(kindOf(code, status), code || `http_${status}`);
		}
		const { result, total, time } = body;
		if (result === undefined || result === null) throw new Bitrix24Error('retry', 'no_result', method);
		pauses.delete(method);
		const { operating } = mapOf(time);
		return {
			result,
			at: startOf(time),
			total: typeof total === 'number' ? total : undefined,
			operatingSeconds: typeof operating === 'number' ? operating : undefined,
		};
	}

	/**
	 * @param read parses the response. If it throws a Bitrix24Error, the call is retried like any other
	 * @param waits whether to wait for the end of a rate-limit pause
	 * @param cutOffs how often it may be cut off until that is an error
	 * @throws Bitrix24Error after the retries of its kind
	 */
	async function call<T>(
		method: string,
		params: Record<string, unknown>,
		read: (response: CrmResponse) => T,
		{ waits, cutOffs = Number.POSITIVE_INFINITY }: { waits: boolean; cutOffs?: number } = { waits: true },
	): Promise<T> {
		const paused = await waitForPause(method, waits);
		if (paused !== undefined) throw paused;
		for (let tries = 1; ; tries++) {
			try {
				return read(await send(method, params));
			} catch (error) {
				if (!(error instanceof Bitrix24Error)) throw error;
				onError(error);
				if (error instanceof CutOffError && --cutOffs <= 0) throw error;
				if (!(await waitToRetry(error, tries, waits))) throw error;
			}
		}
	}

	/** Sends commands in one request, and retries it. */
	async function sendBatch(commands: NamedCommand[], waits: boolean, cutOffs: number): Promise<Outcomes> {
		const cmd = Object.fromEntries(commands.map(([name, command]) => [name, queryOf(command)]));
		const options = { waits, cutOffs };
		const result = await call('batch', { halt: 0, cmd }, (response) => mapOf(response.result), options);
		const results = mapOf(result.result);
		const codes = Object.entries(mapOf(result.result_error)).map(([name, error]) => [name, codeOf(mapOf(error).error)]);
		const errors = new Map(codes as [string, string][]);
		const outcomes: Outcomes = new Map();
		// What the CRM has executed ends a pause, also beside commands that it has refused.
		for (const [name, { method }] of commands)
			if (name in results || kindOfCommand(errors.get(name) ?? '') === 'not_found') pauses.delete(method);
		for (const [name, { method }] of commands) {
			const code = errors.get(name);
			if (code !== undefined) outcomes.set(name, errorOf(kindOfCommand(code), code || 'batch_error', method));
			else if (name in results) outcomes.set(name, { result: results[name] });
			else outcomes.set(name, new Bitrix24Error('retry', 'no_response_in_batch', method));
		}
		return outcomes;
	}

	/** Whether the CRM finishes at least one of three single commands of a batch: otherwise it is down, and halves would not pass. */
	async function finishesAny(commands: NamedCommand[], waits: boolean): Promise<boolean> {
		const single = commands.length === 1 ? [['any', anyCommand] as NamedCommand] : commands;
		const indexes = new Set([0, Math.floor(single.length / 2), single.length - 1]);
		for (const [attempt, index] of [...indexes].entries()) {
			// It may be restarting.
			await clock.sleep(retryDelayMs('retry', maxCutOffs + attempt), signal);
			try {
				await sendBatch(single.slice(index, index + 1), waits, 1);
				return true;
			} catch (error) {
				if (!(error instanceof CutOffError)) throw error;
			}
		}
		return false;
	}

	/**
	 * Sends commands in one request. What the CRM does not finish in time, or in one response, is halved, down to single commands.
	 *
	 * @param isUp whether the CRM is known to finish others
	 * @throws CutOffError when it finishes none: then it is the CRM, and not one of its records
	 */
	async function sendHalving(commands: NamedCommand[], waits: boolean, isUp: boolean): Promise<Outcomes> {
		const begun = clock.now();
		try {
			const outcomes = await sendBatch(commands, waits, isUp ? 1 : maxCutOffs);
			const isQuick = clock.now() - begun < quickBatchMs;
			if (!isUp && isQuick && commands.length === batchSize) batchSize = Math.min(2 * batchSize, maxCommands);
			return outcomes;
		} catch (error) {
			if (!(error instanceof CutOffError)) throw error;
			// What is too large was finished.
			if (!isUp && error.kind === 'retry' && !(await finishesAny(commands, waits))) throw error;
			if (commands.length > 1) {
				const half = Math.ceil(commands.length / 2);
				batchSize = Math.min(batchSize, half);
				return sendParts(commands, waits, half);
			}
			return new Map(commands.map(([name, { method }]) => [name, new Bitrix24Error('unread', error.code, method)]));
		}
	}

	/**
	 * Sends commands in parts. Those after a `stop` or a `pause` are not sent, and have its error.
	 *
	 * @param half the size of the parts, if they are halves; undefined: as many commands as pass
	 */
	async function sendParts(commands: NamedCommand[], waits: boolean, half?: number): Promise<Outcomes> {
		const outcomes: Outcomes = new Map();
		for (let from = 0; from < commands.length; from = outcomes.size) {
			const part = commands.slice(from, from + (half ?? batchSize));
			for (const [name, outcome] of await sendHalving(part, waits, half !== undefined)) outcomes.set(name, outcome);
			const blocked = [...outcomes.values()].find(isBlock);
			if (blocked !== undefined) for (const [name] of commands.slice(outcomes.size)) outcomes.set(name, blocked);
		}
		return outcomes;
	}

	return {
		call,
		/**
		 * Up to `maxCommands`, in one request unless the CRM is slow. A failed command returns its error instead of a response, after
		 * the retries of the error's kind. The other responses are kept even after a `pause` or a `stop`. A batch that is cut off is
		 * halved; a single command that is cut off is `unread`, unless the CRM is down.
		 *
		 * @param waits whether to wait for the end of a rate-limit pause
		 */
		async batch(commands: Command[], { waits }: { waits: boolean }): Promise<CommandResult[]> {
			for (const method of new Set(commands.map((command) => command.method))) {
				const paused = await waitForPause(method, waits);
				if (paused !== undefined) throw paused;
			}
			// A map with the keys 0, 1, 2 … would come back as a list.
			const named = commands.map((command, index): NamedCommand => [`c${index}`, command]);
			const outcomes: Outcomes = new Map();
			let left = named;
			for (let tries = 1; left.length > 0; tries++) {
				const sent = await sendParts(left, waits);
				for (const [name, outcome] of sent) outcomes.set(name, outcome);
				const errors = [...sent.values()].filter((outcome) => outcome instanceof Bitrix24Error);
				// A missing record is not an error of the CRM.
				const codes = new Map(errors.map((error) => [error.code, error]));
				for (const error of codes.values()) if (error.kind !== 'not_found') onError(error);
				const kinds = new Map(errors.map((error) => [error.kind, error]));
				if (kinds.has('stop') || (kinds.has('pause') && !waits)) break;
				const retried = new Set<ErrorKind>();
				for (const error of kinds.values()) if (await waitToRetry(error, tries, waits)) retried.add(error.kind);
				const isRetried = (outcome?: CommandResult) => outcome instanceof Bitrix24Error && retried.has(outcome.kind);
				left = left.filter(([name]) => isRetried(sent.get(name)));
			}
			return named.flatMap(([name]) => outcomes.get(name) ?? []);
		},
		/** The number of requests so far. */
		get requests() {
			return requests;
		},
	};
}

/** A command under its name in a batch. */
type NamedCommand = [name: string, command: Command];

/** By the name of the command. */
type Outcomes = Map<string, CommandResult>;

/** Whether further commands would fail for the same reason. */
const isBlock = (outcome: CommandResult) =>
	outcome instanceof Bitrix24Error && (outcome.kind === 'stop' || outcome.kind === 'pause');

function queryOf({ method, params }: Command): string {
	const query = new URLSearchParams();
	for (const [name, value] of Object.entries(params)) query.set(name, String(value));
	return `${method}?${query}`;
}

/** PHP writes an empty map as `[]`. */
function mapOf(value: unknown): Record<string, unknown> {
	return isRow(value) ? value : {};
}

/** The beginning of the call, by the CRM's clock. Everything in `time` may be missing. */
function startOf(time: unknown): number | undefined {
	const at = Date.parse(String(mapOf(time).date_start));
	return Number.isNaN(at) ? undefined : at;
}

/** [] and {} are not codes, and converting them to text may never end. */
function codeOf(error: unknown): string {
	return typeof error === 'string' || typeof error === 'number' ? String(error) : 'unknown_code';
}
