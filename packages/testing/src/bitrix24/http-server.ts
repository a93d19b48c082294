import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { ActiveFaults } from './fault-effects.js';
import { type IncomingCall, type RecordedRequest, type RestResponse, respond } from './handle-call.js';
import { isMap, type Params } from './php-values.js';
import type { Portal } from './portal.js';

/** The HTTP side of a portal: every REST call is recorded in `requests`, in the order in which they came. */
export function createHttpServer(portal: Portal, requests: RecordedRequest[]): Server {
	// Longer than any test pauses: a connection that is closed while idle would look like a fault.
	return createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
		handle(portal, requests, request, response).catch((error: unknown) => {
			// A client that has gone away, or a test's hook that failed.
			if (response.destroyed || response.headersSent) return;
			send(response, {
				status: 500,
				contentType: 'application/json; charset=utf-8',
				body: JSON.stringify({ error: 'STAND_IN_FAILED', error_description: String(error) }),
			});
		});
	});
}

async function handle(
	portal: Portal,
	requests: RecordedRequest[],
	request: IncomingMessage,
	response: ServerResponse,
): Promise<void> {
	const call = await readRequest(request);
	if (call === undefined) {
		send(response, { status: 404, contentType: 'text/html', body: '<!DOCTYPE html><title>Not found</title>' });
		return;
	}
	const record: RecordedRequest = { at: portal.clock(), method: call.method, params: call.params, status: 0 };
	const number = requests.push(record);
	const source = request.socket.remoteAddress ?? '';
	const { response: reply, faults } = await respond(portal, call, source, number, record);
	if (reply.error !== undefined) record.error = reply.error;
	await deliver(response, reply, faults, record);
}

/** Sends the reply, or breaks it as a fault says. */
async function deliver(
	response: ServerResponse,
	reply: RestResponse,
	faults: ActiveFaults,
	record: RecordedRequest,
): Promise<void> {
	const slow = faults.find('slow');
	if (slow !== undefined) {
		// Without a reference: a late reply keeps no process alive.
		if (slow.milliseconds !== undefined) await delay(slow.milliseconds, undefined, { ref: false });
		await slow.until;
	}
	const fault = faults.find('hang', 'reset', 'cut-off', 'truncated-json');
	if (fault === undefined) {
		record.status = reply.status;
		send(response, reply);
		return;
	}
	record.error = fault.kind;
	if (fault.kind === 'reset') response.socket?.resetAndDestroy();
	const half = reply.body.slice(0, Math.ceil(reply.body.length / 2));
	if (fault.kind === 'truncated-json') {
		record.status = reply.status;
		send(response, { ...reply, body: half });
	}
	if (fault.kind === 'cut-off') {
		response.writeHead(reply.status, {
			'content-type': reply.contentType,
			'content-length': Buffer.byteLength(reply.body),
		});
		response.write(half, () => response.socket?.destroy());
	}
}

function send(response: ServerResponse, reply: RestResponse): void {
	response.writeHead(reply.status, {
		'content-type': reply.contentType,
		'content-length': Buffer.byteLength(reply.body),
		...reply.headers,
	});
	response.end(reply.body);
}

/** /rest/USER/SECRET/METHOD, with or without .json [DOC]; undefined for any other address. */
const restPath = /^\/rest(?:\/(\d+)\/([^/]+))?(?:\/([^/]*))?\/?$/;

/** Reads the method and its parameters, from JSON, a form or a query string. Undefined for an address that is no REST call. */
async function readRequest(request: IncomingMessage): Promise<IncomingCall | undefined> {
	const url = new URL(request.url ?? '/', 'http://portal');
	const body = await readBody(request);
	const match = restPath.exec(url.pathname);
	if (match === null) return undefined;
	const [, userId = '', secret = '', method = ''] = match;
	return {
		userId,
		secret,
		method: decodeURIComponent(method).replace(/\.json$/, ''),
		// [INF] The body goes before the address.
		params: { ...Object.fromEntries(url.searchParams), ...readParams(body, request.headers['content-type'] ?? '') },
	};
}

async function readBody(request: IncomingMessage): Promise<string> {
	const chunks: Buffer[] = [];
	for await (const chunk of request) chunks.push(chunk as Buffer);
	return Buffer.concat(chunks).toString('utf8');
}

/** [INF] A body that is declared as JSON and is not counts as no parameters. It is not an error. */
function readParams(body: string, contentType: string): Params {
	if (!contentType.toLowerCase().startsWith('application/json')) return Object.fromEntries(new URLSearchParams(body));
	try {
		const value: unknown = JSON.parse(body);
		return isMap(value) ? value : {};
	} catch {
		return {};
	}
}
