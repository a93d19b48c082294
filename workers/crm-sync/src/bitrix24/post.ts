import { version } from '@contacts/common/process/version.js';
import { Bitrix24Error, CutOffError, isCode } from './errors.js';

/** Maximum size of a response. That is 160 KB for each of 50 contacts. */
const maxResponseBytes = 8 * 1024 * 1024;

/** The CRM's documentation asks for the name and the version of the program. */
const userAgent = `contacts/${version}`;

/** What Node.js says of a connection that ends after the request was sent. A host that is not reached has other codes. */
const connectionLost = ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'];

export interface PostOptions {
	/** `https://HOST/rest/USER/SECRET/`; it never appears in an error or a log. */
	webhookUrl: string;
	signal?: AbortSignal;
	/** The CRM itself gives up after 60 seconds. */
	responseTimeoutMs?: number;
}

/**
 * Sends one request.
 *
 * @returns the JSON of the response; undefined if it is something else, such as a page for people
 * @throws Bitrix24Error `retry` for a temporary error, `stop` for a CRM that has moved; CutOffError
 */
export async function post(
	{ webhookUrl, responseTimeoutMs = 65_000, signal }: PostOptions,
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
		if (request.signal.aborted) throw new CutOffError('retry', 'timeout', method);
		const { cause } = error as { cause?: { code?: string } };
		if (connectionLost.includes(cause?.code ?? '')) throw new CutOffError('retry', 'network', method);
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
		if (size > maxResponseBytes) throw new CutOffError('stop', 'response_too_large', method);
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
