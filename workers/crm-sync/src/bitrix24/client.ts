import { type BucketPolicy, decide } from '@contacts/common/http/token-bucket.js';
import { version } from '@contacts/common/process/version.js';
import type { Clock } from './clock.js';
import { isRow } from './contact.js';
import { Bitrix24Error, CutOffError, type ErrorKind, isCode, kindOf, kindOfCommand, kindOfPage } from './errors.js';

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

export interface CrmClient {
	/**
	 * @param read parses the response. If it throws a Bitrix24Error, the call is retried like any other
	 * @param waits whether to wait for the end of a rate-limit pause. Default: true
	 * @throws Bitrix24Error after the retries of its kind
	 */
	call<T>(
		method: string,
		params: Record<string, unknown>,
		read: (response: CrmResponse) => T,
		options?: { waits: boolean },
	): Promise<T>;
	/**
	 * Up to `maxCommands`, in one request unless the CRM is slow. A failed command returns its error instead of a response, after
	 * the retries of the error's kind. The other responses are kept even after a `pause` or a `stop`. A batch that is cut off is
	 * halved; a single command that is cut off is `unread` if others pass.
	 *
	 * @param waits whether to wait for the end of a rate-limit pause
	 */
	batch(commands: Command[], options: { waits: boolean }): Promise<CommandResult[]>;
	/** The number of requests so far. */
	readonly requests: number;
}

interface CrmClientOptions {
	/** `https://HOST/rest/USER/SECRET/`; it never appears in an error or a log. */
	webhookUrl: string;
	policy: BucketPolicy;
	clock: Clock;
	/** Where the token bucket stood when an earlier process ended. */
	arrival?: number;
	/** Called before each request with the new state of the token bucket, so that it can be saved. */
	onRequest?: (arrival: number) => Promise<void>;
	signal?: AbortSignal;
	/** The CRM itself gives up after 60 seconds. */
	responseTimeoutMs?: number;
	/** Called for each failed attempt. For commands of a batch, called once with each code. */
	onError?: (error: Bitrix24Error) => void;
	/** Called before the client waits for the end of a rate-limit pause, and without an error after that. */
	onPause?: (error: Bitrix24Error | undefined) => Promise<void>;
}

/** Maximum number of attempts, by kind of error. */
const maxAttempts: Partial<Record<ErrorKind, number>> = { retry: 6, slow_down: 9 };

/** Maximum size of a response. That is 160 KB for each of 50 contacts. */
const maxResponseBytes = 8 * 1024 * 1024;

/** The CRM's documentation asks for the name and the version of the program. */
const userAgent = `contacts/${version}`;

/** A batch that is cut off so often is halved. */
const maxCutOffs = 2;

/** After so many batches in a row that are not cut off, twice as many commands are tried in one. */
const batchesUntilDoubled = 50;

/** How long a method that has used up its operating time is not called. The CRM frees a part of it each minute. */
const pauseMs = 30_000;

/** Maximum wait for a method that the CRM does not execute. It adds up the operating time of ten minutes. */
export const maxPauseMs = 660_000;

/**
 * Calls the REST interface of Bitrix24 through an inbound webhook, one request at a time, within the CRM's limits. All its
 * methods only read, so each may be sent again.
 */
export function createCrmClient(options: CrmClientOptions): CrmClient {
	const { policy, clock, signal, onError = () => undefined, onPause } = options;
	/** Where the token bucket stands. */
	let arrival = options.arrival ?? 0;
	let requests = 0;
	/** How many commands a batch has: fewer than the CRM accepts, if it has not returned so many in time. */
	let batchSize = maxCommands;
	let goodBatches = 0;
	/** When the first pause of a method began since the CRM has last executed it, and when the latest one ends. */
	const pauses = new Map<string, { begin: number; end: number }>();

	async function waitForToken(): Promise<void> {
		for (let isAdmitted = false; !isAdmitted; ) {
			const [{ admitted, waitMs }, next] = decide(policy, arrival, clock.now());
			arrival = next;
			isAdmitted = admitted;
			if (!isAdmitted) await clock.sleep(waitMs, signal);
		}
		await options.onRequest?.(arrival);
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
		if (tries >= (maxAttempts[kind] ?? 1)) return false;
		await clock.sleep(retryDelayMs(kind, tries), signal);
		return true;
	}

	async function send(method: string, params: Record<string, unknown>): Promise<CrmResponse> {
		await waitForToken();
		requests++;
		const { status, body } = await post(options, method, params);
		const failure = (kind: ErrorKind, code: string) =>
			kind === 'retry' && status === gatewayTimeout ? new CutOffError(code, method) : errorOf(kind, code, method);
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
				if (error instanceof CutOffError && --cutOffs === 0) throw error;
				if (!(await waitToRetry(error, tries, waits))) throw error;
			}
		}
	}

	/**
	 * Sends commands in one request, and retries it.
	 *
	 * @param cutOffs how often it may be cut off until that is an error
	 */
	async function sendBatch(
		commands: NamedCommand[],
		waits: boolean,
		cutOffs: number,
	): Promise<Map<string, CommandResult>> {
		const cmd = Object.fromEntries(commands.map(([name, command]) => [name, queryOf(command)]));
		const options = { waits, cutOffs };
		const result = await call('batch', { halt: 0, cmd }, (response) => mapOf(response.result), options);
		const results = mapOf(result.result);
		const codes = Object.entries(mapOf(result.result_error)).map(([name, error]) => [name, codeOf(mapOf(error).error)]);
		const errors = new Map(codes as [string, string][]);
		const outcomes = new Map<string, CommandResult>();
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

	/**
	 * Sends commands in as many requests as they need. A part that is cut off twice is halved, down to single commands.
	 *
	 * @returns an outcome of each command. Those that were not sent after a `stop` or a `pause` have its error
	 * @throws CutOffError when no part has passed: then it is the CRM, and not one of its records
	 */
	async function sendParts(commands: NamedCommand[], waits: boolean): Promise<Map<string, CommandResult>> {
		const outcomes = new Map<string, CommandResult>();
		const parts = partsOf(commands, batchSize);
		/** Single commands that were cut off. */
		const failed: [NamedCommand, CutOffError][] = [];
		/** Parts that were cut off once after the first single command, while nothing had passed. */
		const postponed: NamedCommand[][] = [];
		/** The size of the largest part that has passed. */
		let largest = 0;
		let cutOffs = 0;
		for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
			const [first] = part;
			if (first === undefined) continue;
			// A CRM that is down cuts off every part: each further one is sent once, to see whether one passes.
			const seemsDown = largest === 0 && failed.length > 0;
			try {
				const attempts = seemsDown ? 1 : maxCutOffs;
				const sent = await sendBatch(part, waits, commands.length === 1 ? Number.POSITIVE_INFINITY : attempts);
				for (const [name, outcome] of sent) outcomes.set(name, outcome);
				largest = Math.max(largest, part.length);
				goodBatches++;
				parts.push(...postponed.splice(0));
				const blocked = [...sent.values()].find(isBlock);
				if (blocked === undefined) continue;
				for (const [name] of parts.splice(0).flat()) outcomes.set(name, blocked);
			} catch (error) {
				if (!(error instanceof CutOffError)) throw error;
				goodBatches = 0;
				cutOffs++;
				// It may be restarting.
				if (largest === 0) await clock.sleep(retryDelayMs('retry', Math.min(cutOffs, 3)), signal);
				if (seemsDown) postponed.push(part);
				else if (part.length > 1) parts.unshift(...partsOf(part, Math.ceil(part.length / 2)));
				else failed.push([first, error]);
			}
		}
		const [[, down] = []] = failed;
		if (largest === 0 && down !== undefined) throw down;
		for (const [[name, { method }], { code }] of failed) outcomes.set(name, new Bitrix24Error('unread', code, method));
		// If a single command was cut off, the number of commands was not the reason.
		if (cutOffs > 0 && failed.length === 0) batchSize = largest;
		if (goodBatches >= batchesUntilDoubled) {
			batchSize = Math.min(2 * batchSize, maxCommands);
			goodBatches = 0;
		}
		return outcomes;
	}

	return {
		call,
		async batch(commands, { waits }) {
			for (const method of new Set(commands.map((command) => command.method))) {
				const paused = await waitForPause(method, waits);
				if (paused !== undefined) throw paused;
			}
			// A map with the keys 0, 1, 2 … would come back as a list.
			const named = commands.map((command, index): NamedCommand => [`c${index}`, command]);
			const outcomes = new Map<string, CommandResult>();
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
		get requests() {
			return requests;
		},
	};
}

/** A command under its name in a batch. */
type NamedCommand = [name: string, command: Command];

function partsOf(commands: NamedCommand[], size: number): NamedCommand[][] {
	const parts: NamedCommand[][] = [];
	for (let from = 0; from < commands.length; from += size) parts.push(commands.slice(from, from + size));
	return parts;
}

/** Whether further commands would fail for the same reason. */
const isBlock = (outcome: CommandResult) =>
	outcome instanceof Bitrix24Error && (outcome.kind === 'stop' || outcome.kind === 'pause');

/** The random part keeps several clients of one CRM from retrying at the same time. */
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

/** The status of a gateway before the CRM that has waited too long for it. */
const gatewayTimeout = 504;

/** What Node.js says of a connection that ends after the request was sent. A host that is not reached has other codes. */
const connectionLost = ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'];

/**
 * Sends one request.
 *
 * @returns the JSON of the response; undefined if it is something else, such as a page for people
 * @throws Bitrix24Error `retry` for a temporary error, `stop` for a CRM that has moved
 */
async function post(
	{ webhookUrl, responseTimeoutMs = 65_000, signal }: CrmClientOptions,
	method: string,
	params: Record<string, unknown>,
): Promise<{ status: number; body: unknown }> {
	// AbortSignal.any() would leave an entry in the long-lived signal for each request.
	const request = new AbortController();
	const stop = () => request.abort(signal?.reason);
	const timer = setTimeout(() => request.abort(new DOMException('timeout', 'TimeoutError')), responseTimeoutMs);
	signal?.addEventListener('abort', stop);
	try {
		signal?.throwIfAborted();
		const response = await fetch(new URL(`${method}.json`, webhookUrl.endsWith('/') ? webhookUrl : `${webhookUrl}/`), {
			method: 'POST',
			headers: { 'content-type': 'application/json', accept: 'application/json', 'user-agent': userAgent },
			body: JSON.stringify(params),
			// Following a redirect would turn the POST into a GET without its body, and its response would be trusted.
			redirect: 'manual',
			signal: request.signal,
		});
		if (response.status >= 300 && response.status < 400) {
			await response.body?.cancel();
			throw new Bitrix24Error('stop', `portal_moved_to_${hostOf(response.headers.get('location'))}`, method);
		}
		return { status: response.status, body: await jsonOf(response, method) };
	} catch (error) {
		if (error instanceof Bitrix24Error) throw error;
		signal?.throwIfAborted();
		if (request.signal.aborted) throw new CutOffError('timeout', method);
		const { cause } = error as { cause?: { code?: string } };
		if (connectionLost.includes(cause?.code ?? '')) throw new CutOffError('network', method);
		throw new Bitrix24Error('retry', 'network', method);
	} finally {
		clearTimeout(timer);
		signal?.removeEventListener('abort', stop);
	}
}

async function jsonOf(response: Response, method: string): Promise<unknown> {
	const chunks: Uint8Array[] = [];
	let size = 0;
	for await (const chunk of response.body ?? []) {
		size += chunk.length;
		if (size > maxResponseBytes) throw new Bitrix24Error('retry', 'response_too_large', method);
		chunks.push(chunk);
	}
	// Without a byte order mark.
	const text = new TextDecoder().decode(Buffer.concat(chunks));
	const parsed = parse(text);
	if (parsed === undefined && parse(text.slice(text.search(/\{"(?:result|error|time)"|$/))) !== undefined)
		throw new Bitrix24Error('stop', 'text_before_json', method);
	return parsed;
}

function parse(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return undefined;
	}
}

/** Only the host: the URL contains the secret. A host that can't be part of a code is left out. */
function hostOf(location: string | null): string {
	const host = location !== null && URL.canParse(location) ? new URL(location).hostname : '';
	return isCode(`portal_moved_to_${host}`) && host !== '' ? host : 'an_unknown_host';
}
