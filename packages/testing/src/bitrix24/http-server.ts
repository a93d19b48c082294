import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { callBatch, callMethod } from './calls.js';
import { type CrmState, type RecordedRequest, secret, type TlsOptions, userId } from './crm-state.js';
import { type Fault, throwError } from './faults.js';
import { type Params, parseQuery, RestError } from './rest.js';

/** A response, before it is sent. */
interface Reply {
	status: number;
	contentType: string;
	body: string;
	location?: string;
}

/** The HTTP side of a CRM. Every REST call is recorded. */
export function createHttpServer(crm: CrmState, tls: TlsOptions | undefined): Server {
	// Longer than any test pauses: a connection that is closed while idle would look like a fault.
	const options = { keepAliveTimeout: 60_000 };
	const listener = (request: IncomingMessage, response: ServerResponse) => {
		handle(crm, request, response).catch((error: unknown) => {
			// A client that has gone away, or a test's hook that failed.
			if (!response.destroyed && !response.headersSent)
				send(response, errorReply(new RestError('STAND_IN', String(error))));
		});
	};
	return tls === undefined ? createServer(options, listener) : createTlsServer({ ...options, ...tls }, listener);
}

async function handle(crm: CrmState, request: IncomingMessage, response: ServerResponse): Promise<void> {
	const chunks: Buffer[] = [];
	for await (const chunk of request) chunks.push(chunk as Buffer);
	const { pathname, search } = new URL(request.url ?? '', 'http://stand-in');
	const [, user, password, method = ''] = /^\/rest\/(\d+)\/([^/]+)\/([^/]+?)(?:\.json)?$/.exec(pathname) ?? [];
	const body = bodyOf(request, Buffer.concat(chunks).toString('utf8'));
	const params: Params = { ...parseQuery(search), ...body };
	const record: RecordedRequest = { method, params, status: 0 };
	const info = { number: crm.requests.push(record), method, params };
	if (!crm.counter.admit()) {
		send(response, errorReply(new RestError('QUERY_LIMIT_EXCEEDED')), record);
		return;
	}
	for (const hook of [...crm.requestHooks]) await hook(info);
	const faults = crm.faults.take(info, false);
	const isKnown = user === String(userId) && password === secret;
	const reply = replacement(faults) ?? (await reply200(crm, record, info.number, faults, isKnown));
	deliver(response, reply, faults, record);
}

function bodyOf({ headers }: IncomingMessage, text: string): Params {
	if (headers['content-type']?.startsWith('application/x-www-form-urlencoded')) return parseQuery(text);
	return text === '' ? {} : JSON.parse(text);
}

async function reply200(
	crm: CrmState,
	record: RecordedRequest,
	number: number,
	faults: Fault[],
	isKnown: boolean,
): Promise<Reply> {
	const { method } = record;
	const params = record.params as Params;
	try {
		throwError(faults);
		if (!isKnown) throw new RestError('INVALID_CREDENTIALS');
		const { time, ...body } =
			method === 'batch'
				? await callBatch(crm, params, number, record)
				: await callMethod(crm, { method, params }, faults, true);
		return json(200, faults.some(({ kind }) => kind === 'without-time') ? body : { ...body, time });
	} catch (error) {
		if (error instanceof RestError) return errorReply(error);
		throw error;
	}
}

/** The response of a fault that replaces any response of the REST API. */
function replacement(faults: Fault[]): Reply | undefined {
	for (const fault of faults) {
		if (fault.kind === 'html')
			return { status: fault.status, contentType: 'text/html', body: '<h1>Try again later</h1>' };
		if (fault.kind === 'no-result') return json(200, { time: {} });
		if (fault.kind === 'redirect')
			return { ...json(302, {}), location: fault.to ?? `https://renamed-crm.example/rest/${userId}/${secret}/` };
	}
	return undefined;
}

/** Sends the reply, or breaks it as a fault says. */
function deliver(response: ServerResponse, reply: Reply, faults: Fault[], record: RecordedRequest): void {
	const kinds = new Set(faults.map(({ kind }) => kind));
	for (const fault of faults)
		if (fault.kind === 'text-before-json') reply = { ...reply, body: fault.text + reply.body };
	const half = reply.body.slice(0, Math.ceil(reply.body.length / 2));
	if (kinds.has('hang')) return;
	if (kinds.has('reset')) response.socket?.resetAndDestroy();
	else if (kinds.has('truncated-json')) send(response, { ...reply, body: half }, record);
	else if (kinds.has('cut-off')) {
		response.writeHead(reply.status, { 'content-length': Buffer.byteLength(reply.body) });
		response.write(half, () => response.socket?.destroy());
	} else send(response, reply, record);
}

function send(
	response: ServerResponse,
	{ status, contentType, body, location }: Reply,
	record?: RecordedRequest,
): void {
	if (record !== undefined) record.status = status;
	const length = Buffer.byteLength(body);
	response.writeHead(status, { 'content-type': contentType, 'content-length': length, ...(location && { location }) });
	response.end(body);
}

function json(status: number, value: unknown): Reply {
	return { status, contentType: 'application/json; charset=utf-8', body: JSON.stringify(value) };
}

function errorReply({ status, code, description }: RestError): Reply {
	return json(status, { error: code, error_description: description });
}
