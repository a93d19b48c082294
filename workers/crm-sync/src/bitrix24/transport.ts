import type { Clock } from './clock.js';
import { Bitrix24Error, isCode } from './errors.js';

export interface RawResponse {
	status: number;
	/** The portal's error code, perhaps empty; undefined for a success. */
	error: string | undefined;
	result: unknown;
	total: number | undefined;
	/** Milliseconds since the epoch, by the portal's clock. */
	at: number | undefined;
	/** Milliseconds until the portal no longer counts the method's oldest operating time, from the beginning of the call. */
	resetInMs: number | undefined;
}

/** Maximum size of a response. That is 160 KB for each of 50 contacts. */
const maxResponseBytes = 8 * 1024 * 1024;

/** Maximum nesting of a response. The rows of a batch are the deepest, with less than ten levels. */
const maxDepth = 32;

/** Maximum number of fields and elements in a response: 5,000 for each of 50 contacts. */
const maxValues = 250_000;

/** The portal adds up the operating time of ten minutes. */
const maxResetMs = 600_000;

/**
 * Sends one request and reads its response strictly: anything but a JSON object with a result or an error code is an error,
 * never an empty result.
 *
 * @throws Bitrix24Error `retry` for a temporary error, `stop` for a portal that has moved
 */
export async function post(
	webhookUrl: string,
	method: string,
	params: Record<string, unknown>,
	timeoutMs: number,
	signal?: AbortSignal,
): Promise<RawResponse> {
	// AbortSignal.any() would leave an entry in the long-lived signal for each request.
	const request = new AbortController();
	const stop = () => request.abort(signal?.reason);
	const timer = setTimeout(() => request.abort(new DOMException('timeout', 'TimeoutError')), timeoutMs);
	signal?.addEventListener('abort', stop);
	try {
		signal?.throwIfAborted();
		const response = await fetch(new URL(`${method}.json`, webhookUrl.endsWith('/') ? webhookUrl : `${webhookUrl}/`), {
			method: 'POST',
			headers: { 'content-type': 'application/json', accept: 'application/json' },
			body: JSON.stringify(params),
			// Following a redirect would turn the POST into a GET without its body, and its response would be trusted.
			redirect: 'manual',
			signal: request.signal,
		});
		if (response.status >= 300 && response.status < 400) {
			await response.body?.cancel();
			throw new Bitrix24Error('stop', `portal_moved_to_${hostOf(response.headers.get('location'))}`, method);
		}
		return read(await bytesOf(response, method), response.status, method);
	} catch (error) {
		if (error instanceof Bitrix24Error) throw error;
		signal?.throwIfAborted();
		const timedOut = error instanceof Error && error.name === 'TimeoutError';
		throw new Bitrix24Error('retry', timedOut ? 'timeout' : 'network', method);
	} finally {
		clearTimeout(timer);
		signal?.removeEventListener('abort', stop);
	}
}

async function bytesOf(response: Response, method: string): Promise<Buffer> {
	const chunks: Uint8Array[] = [];
	let size = 0;
	for await (const chunk of response.body ?? []) {
		size += chunk.length;
		if (size > maxResponseBytes) throw new Bitrix24Error('retry', 'response_too_large', method);
		chunks.push(chunk);
	}
	return Buffer.concat(chunks);
}

const [quotationMark, backslash, comma] = [...Buffer.from('"\\,')];
const opening = new Set(Buffer.from('[{'));
const closing = new Set(Buffer.from(']}'));

/**
 * Whether JSON has too many levels or values. Each may take a hundred times the memory of its character, and code that walks
 * through a value recursively needs stack for each level. So this is known before the text is parsed.
 */
function isTooComplex(json: Buffer): boolean {
	let [depth, values, inString] = [0, 0, false];
	for (let index = 0; index < json.length; index++) {
		const byte = json[index] as number;
		if (byte === quotationMark) inString = !inString;
		else if (inString) {
			// The next byte is escaped.
			if (byte === backslash) index++;
		} else if (byte === comma) values++;
		else if (opening.has(byte)) {
			depth++;
			values++;
		} else if (closing.has(byte)) depth--;
		if (depth > maxDepth || values > maxValues) return true;
	}
	return false;
}

function read(json: Buffer, status: number, method: string): RawResponse {
	if (isTooComplex(json)) throw new Bitrix24Error('retry', 'response_too_complex', method);
	let body: Record<string, unknown>;
	try {
		body = JSON.parse(json.toString('utf8'));
	} catch {
		throw new Bitrix24Error('retry', 'not_json', method);
	}
	if (typeof body !== 'object' || body === null || Array.isArray(body))
		throw new Bitrix24Error('retry', 'no_result', method);
	const response: RawResponse = {
		status,
		error: undefined,
		result: body.result,
		total: typeof body.total === 'number' ? body.total : undefined,
		...timesOf(body.time),
	};
	if ('error' in body) return { ...response, error: codeOf(body.error) };
	if (body.result === undefined || body.result === null) throw new Bitrix24Error('retry', 'no_result', method);
	return response;
}

/** Reads `time` of a response, or of one command in a batch. Everything in it may be missing. */
export function timesOf(time: unknown): Pick<RawResponse, 'at' | 'resetInMs'> {
	const { date_start: start, operating_reset_at: reset } = (time ?? {}) as Record<string, unknown>;
	const at = typeof start === 'string' ? Date.parse(start) : Number.NaN;
	if (Number.isNaN(at)) return { at: undefined, resetInMs: undefined };
	const resetInMs = typeof reset === 'number' ? reset * 1000 - at : Number.NaN;
	return { at, resetInMs: resetInMs >= 0 && resetInMs <= maxResetMs ? resetInMs : undefined };
}

/** [] and {} are not codes, and converting them to text may never end. */
export function codeOf(error: unknown): string {
	return typeof error === 'string' || typeof error === 'number' ? String(error) : 'unknown_code';
}

/** Only the host: the URL contains the secret. A host that can't be part of a code is left out. */
function hostOf(location: string | null): string {
	const host = location !== null && URL.canParse(location) ? new URL(location).hostname : '';
	return isCode(`portal_moved_to_${host}`) && host !== '' ? host : 'an_unknown_host';
}

/** The minimum pause of a method that has used up its operating time. */
const minPauseMs = 30_000;

/** How long after the portal's own time a paused method is called again. */
const afterResetMs = 1000;

/** The pauses of methods that have used up their operating time. All times are milliseconds since the epoch, by our clock. */
export function createPauses(clock: Clock) {
	const pausedUntil = new Map<string, number>();
	/** When the portal stops counting the oldest operating time of a method. Only its successes tell, a refusal does not. */
	const resetAt = new Map<string, number>();
	return {
		noteReset(method: string, resetInMs: number | undefined): void {
			if (resetInMs !== undefined) resetAt.set(method, clock.now() + resetInMs);
		},
		/** Begins a pause. @returns its end */
		begin(method: string): number {
			const until = Math.max((resetAt.get(method) ?? 0) + afterResetMs, clock.now() + minPauseMs);
			pausedUntil.set(method, until);
			return until;
		},
		/** The end of the current pause. Undefined: the method may be called. */
		endOf(method: string): number | undefined {
			const until = pausedUntil.get(method) ?? 0;
			const waitMs = until - clock.now();
			// A longer pause began before the clock was set back.
			return waitMs > 0 && waitMs <= maxResetMs + afterResetMs ? until : undefined;
		},
	};
}
