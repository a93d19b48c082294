import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type BatchCall, type CrmState, type RecordedRequest, secret, userId } from './crm-state.js';
import { changeRows, type Fault, throwError } from './faults.js';
import { methods } from './items.js';
import { encodeArray, formatDate, isMap, type Params, RestError } from './rest.js';

/** The CRM refuses longer batches. */
const maxCommands = 50;

/** A response, before it is sent. */
interface Reply {
	status: number;
	contentType: string;
	body: string;
	location?: string;
}

/** The HTTP side of a CRM. Every REST call is recorded. */
export function createHttpServer(crm: CrmState): Server {
	// Longer than any test pauses: a connection that is closed while idle would look like a fault.
	return createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
		handle(crm, request, response).catch((error: unknown) => {
			// A client that has gone away, or a test's hook that failed.
			if (!response.destroyed && !response.headersSent)
				send(response, errorReply(new RestError('STAND_IN', String(error))));
		});
	});
}

async function handle(crm: CrmState, request: IncomingMessage, response: ServerResponse): Promise<void> {
	const chunks: Buffer[] = [];
	for await (const chunk of request) chunks.push(chunk as Buffer);
	const [, user, password, method = ''] = /^\/rest\/(\d+)\/([^/]+)\/([^/]+?)(?:\.json)?$/.exec(request.url ?? '') ?? [];
	const params = chunks.length === 0 ? {} : JSON.parse(Buffer.concat(chunks).toString('utf8'));
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
		const isBatch = method === 'batch';
		const { time, ...body } = isBatch
			? { result: await runBatch(crm, params, number, record), time: timeOf(crm, method, 0) }
			: await callMethod(crm, method, params, faults);
		return json(200, faults.some(({ kind }) => kind === 'without-time') ? body : { ...body, time });
	} catch (error) {
		if (error instanceof RestError) return errorReply(error);
		throw error;
	}
}

/** Calls a method, directly or inside a batch. Its operating time is checked before, and billed after. */
async function callMethod(crm: CrmState, name: string, params: Params, faults: Fault[]) {
	const method = Object.hasOwn(methods, name) ? methods[name] : undefined;
	if (method === undefined) throw new RestError('ERROR_METHOD_NOT_FOUND');
	if (!crm.operating.admit(name)) throw new RestError('OPERATION_TIME_LIMIT');
	throwError(faults);
	const seconds = crm.secondsOf(name);
	// A refused call costs time as well.
	crm.operating.add(name, seconds);
	return { ...changeRows(await method(params, crm), faults), time: timeOf(crm, name, seconds) };
}

/** Its commands are run one after the other. Its own status is 200; their errors are in `result_error`. */
async function runBatch(crm: CrmState, { cmd }: Params, number: number, record: RecordedRequest): Promise<Params> {
	const result: [string, unknown][] = [];
	const errors: [string, unknown][] = [];
	const times: [string, unknown][] = [];
	record.calls = [];
	for (const [index, [key, command]] of Object.entries(isMap(cmd) ? cmd : {}).entries()) {
		const [method = '', query = ''] = String(command).split('?');
		const call: BatchCall = { method, params: Object.fromEntries(new URLSearchParams(query)) };
		record.calls.push(call);
		try {
			if (index >= maxCommands) throw new RestError('ERROR_BATCH_LENGTH_EXCEEDED');
			const faults = crm.faults.take({ number, ...call }, true);
			const response = await callMethod(crm, method, call.params, faults);
			result.push([key, response.result]);
			times.push([key, response.time]);
		} catch (error) {
			if (!(error instanceof RestError)) throw error;
			call.error = error.code;
			// Its key is missing from `result` and `result_time`.
			errors.push([key, { error: error.code, error_description: error.description }]);
		}
	}
	return {
		result: encodeArray(result),
		result_error: encodeArray(errors),
		result_total: [],
		result_next: [],
		result_time: encodeArray(times),
	};
}

/** The `time` of a response, by the CRM's clock and in its zone. */
function timeOf({ clock, utcOffset, operating }: CrmState, method: string, seconds: number): Params {
	const start = clock() / 1000;
	return {
		start,
		finish: start + seconds,
		duration: seconds,
		processing: seconds,
		date_start: formatDate(start * 1000, utcOffset),
		date_finish: formatDate((start + seconds) * 1000, utcOffset),
		operating_reset_at: operating.resetAt(method),
		operating: operating.spent(method),
	};
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
