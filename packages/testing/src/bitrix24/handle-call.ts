import { type BatchCall, runBatch } from './batch.js';
import { RestError, statusOf } from './errors.js';
import { ActiveFaults } from './fault-effects.js';
import type { RequestInfo } from './faults.js';
import { callMethod, timeOf } from './methods.js';
import type { Params } from './php-values.js';
import { type Portal, secret, userId } from './portal.js';

/** A request over HTTP as the stand-in remembers it. */
export interface RecordedRequest {
	/** By the portal's clock. */
	at: number;
	method: string;
	params: unknown;
	/** 0 until there is a response. It stays 0 if the connection was broken or left open. */
	status: number;
	/** The error's code, or the kind of the fault that broke the response. */
	error?: string;
	/** The commands of a batch that were run. */
	calls?: BatchCall[];
}

/** A request as the portal understands it. */
export interface IncomingCall {
	userId: string;
	secret: string;
	method: string;
	params: Params;
}

/** A response, before it is sent. */
export interface RestResponse {
	status: number;
	contentType: string;
	body: string;
	headers?: Record<string, string>;
	/** An error's code. */
	error?: string;
}

/** Responds to a call: the rate limit first [INF], then the hooks and the faults of the test, the webhook, the method. */
export async function respond(
	portal: Portal,
	call: IncomingCall,
	source: string,
	number: number,
	record: RecordedRequest,
): Promise<{ response: RestResponse; faults: ActiveFaults }> {
	if (!portal.counter.admit(source)) {
		return { response: errorResponse(new RestError('QUERY_LIMIT_EXCEEDED'), portal), faults: new ActiveFaults([]) };
	}
	const request: RequestInfo = { number, method: call.method, params: call.params };
	for (const hook of [...portal.requestHooks]) await hook(request);
	const faults = new ActiveFaults(portal.faults.take(request, false));
	return { response: replacement(faults, call) ?? (await run(portal, call, request, faults, record)), faults };
}

async function run(
	portal: Portal,
	call: IncomingCall,
	request: RequestInfo,
	faults: ActiveFaults,
	record: RecordedRequest,
): Promise<RestResponse> {
	try {
		// A scripted error needs no valid call: many of them are about just that.
		faults.throwError();
		// [DOC] The webhook's owner and its secret have to fit together.
		if (call.secret === '') throw new RestError('NO_AUTH_FOUND');
		if (portal.revoked || call.secret !== secret || call.userId !== String(userId)) {
			throw new RestError('INVALID_CREDENTIALS');
		}
		if (call.method.toLowerCase() !== 'batch') {
			const { time, ...reply } = await callMethod(portal, call.method, call.params, faults);
			return jsonResponse(faults.find('without-time') === undefined ? { ...reply, time } : reply);
		}
		record.calls = [];
		const result = await runBatch(portal, request, record.calls);
		return jsonResponse({ result, time: timeOf(portal, 'batch', 0) });
	} catch (error) {
		if (error instanceof RestError) return errorResponse(error, portal);
		throw error;
	}
}

/** The response of a fault that replaces any response of the REST API. */
function replacement(faults: ActiveFaults, call: IncomingCall): RestResponse | undefined {
	const fault = faults.find('html', 'redirect', 'no-result');
	if (fault === undefined) return undefined;
	if (fault.kind === 'html') return { status: fault.status, contentType: 'text/html; charset=utf-8', body: page };
	if (fault.kind === 'no-result') return jsonResponse({ time: {} });
	// [DOC] A renamed portal responds so.
	const to = fault.to ?? 'https://renamed-portal.example';
	return {
		status: 302,
		contentType: 'text/html; charset=utf-8',
		body: '',
		headers: { location: `${to}/rest/${call.userId}/${call.secret}/${call.method}` },
	};
}

const page = '<!DOCTYPE html><html><head><title>Bad Gateway</title></head><body><h1>Try again later</h1></body></html>';

function jsonResponse(value: unknown): RestResponse {
	return { status: 200, contentType: 'application/json; charset=utf-8', body: JSON.stringify(value) };
}

/** [DOC] `error` is a code, or empty; nothing else can be relied on. */
function errorResponse(error: RestError, portal: Portal): RestResponse {
	const status = statusOf(error, portal.switches);
	const { retryAfter } = portal.switches;
	return {
		...jsonResponse({ error: error.code, error_description: error.description }),
		status,
		error: error.code,
		...(retryAfter !== null && (status === 503 || status === 429)
			? { headers: { 'retry-after': String(retryAfter) } }
			: {}),
	};
}
