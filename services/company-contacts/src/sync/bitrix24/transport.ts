import { Bitrix24Error, isCode } from './errors.js';

export interface RawAnswer {
	status: number;
	/** The portal's error code, perhaps empty; undefined for a success. */
	error: string | undefined;
	result: unknown;
	total: number | undefined;
	/** Milliseconds since the epoch, by the portal's clock. */
	at: number | undefined;
	/** When the method's oldest minute of work is forgotten; milliseconds since the epoch. */
	resetAt: number | undefined;
}

/** The largest answer that is read, in bytes: 50 contacts with all their fields are far below it. */
const largestAnswer = 32 * 1024 * 1024;

/**
 * Sends one request and reads its answer strictly: anything but a JSON object with a result or an error code is a failure,
 * never an empty result.
 *
 * @throws Bitrix24Error `retry` for what may pass, `stop` for a portal that has moved
 */
export async function post(
	webhookUrl: string,
	method: string,
	params: Record<string, unknown>,
	timeout: number,
	signal?: AbortSignal,
): Promise<RawAnswer> {
	// AbortSignal.any() would leave an entry in the long-lived signal for each request.
	const request = new AbortController();
	const stop = () => request.abort(signal?.reason);
	const timer = setTimeout(() => request.abort(new DOMException('timeout', 'TimeoutError')), timeout);
	signal?.addEventListener('abort', stop);
	try {
		signal?.throwIfAborted();
		const response = await fetch(new URL(`${method}.json`, webhookUrl.endsWith('/') ? webhookUrl : `${webhookUrl}/`), {
			method: 'POST',
			headers: { 'content-type': 'application/json', accept: 'application/json' },
			body: JSON.stringify(params),
			// Following would turn the POST into a GET without its body, and the answer would be taken for another.
			redirect: 'manual',
			signal: request.signal,
		});
		if (response.status >= 300 && response.status < 400) {
			await response.body?.cancel();
			throw new Bitrix24Error('stop', `portal_moved_to_${hostOf(response.headers.get('location'))}`, method);
		}
		return read(await textOf(response, method), response.status, method);
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

async function textOf(response: Response, method: string): Promise<string> {
	const chunks: Uint8Array[] = [];
	let size = 0;
	for await (const chunk of response.body ?? []) {
		size += chunk.length;
		if (size > largestAnswer) throw new Bitrix24Error('retry', 'answer_too_large', method);
		chunks.push(chunk);
	}
	return Buffer.concat(chunks).toString('utf8');
}

function read(text: string, status: number, method: string): RawAnswer {
	let body: Record<string, unknown>;
	try {
		body = JSON.parse(text);
	} catch {
		throw new Bitrix24Error('retry', 'not_json', method);
	}
	if (typeof body !== 'object' || body === null || Array.isArray(body))
		throw new Bitrix24Error('retry', 'no_result', method);
	const time = (body.time ?? {}) as Record<string, unknown>;
	const at = typeof time.date_start === 'string' ? Date.parse(time.date_start) : Number.NaN;
	const answer: RawAnswer = {
		status,
		error: undefined,
		result: body.result,
		total: typeof body.total === 'number' ? body.total : undefined,
		at: Number.isNaN(at) ? undefined : at,
		resetAt: typeof time.operating_reset_at === 'number' ? time.operating_reset_at * 1000 : undefined,
	};
	if ('error' in body) return { ...answer, error: codeOf(body.error) };
	if (body.result === undefined || body.result === null) throw new Bitrix24Error('retry', 'no_result', method);
	return answer;
}

/** [] and {} are no codes, and turning them into text may take for ever. */
export function codeOf(error: unknown): string {
	return typeof error === 'string' || typeof error === 'number' ? String(error) : 'unknown_code';
}

/** Only the host: the address holds the secret. One that can't be part of a code is not named. */
function hostOf(location: string | null): string {
	const host = location !== null && URL.canParse(location) ? new URL(location).hostname : '';
	return isCode(`portal_moved_to_${host}`) && host !== '' ? host : 'an_unknown_host';
}
