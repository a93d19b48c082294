import type { BatchCall, CrmState, RecordedRequest } from './crm-state.js';
import { changeRows, type Fault, throwError } from './faults.js';
import { methods } from './items.js';
import { encodeArray, formatDate, isMap, type Params, parseQuery, RestError } from './rest.js';

/** The CRM refuses longer batches. */
const maxCommands = 50;

/** Calls a method, directly or inside a batch. Where it is billed, its operating time is checked before, and added after. */
export async function callMethod(crm: CrmState, call: BatchCall, faults: Fault[], isBilled: boolean) {
	const method = Object.hasOwn(methods, call.method) ? methods[call.method] : undefined;
	if (method === undefined) throw new RestError('ERROR_METHOD_NOT_FOUND');
	if (isBilled && !crm.operating.admit(call.method)) throw new RestError('OPERATION_TIME_LIMIT');
	throwError(faults);
	const seconds = crm.secondsOf(call.method);
	// A refused call costs time as well.
	if (isBilled) crm.operating.add(call.method, seconds);
	return { ...changeRows(await method(call.params, crm), faults), time: timeOf(crm, call.method, seconds) };
}

/** Its commands are run one after the other. Its own status is 200; their errors are in `result_error`. */
export async function callBatch(crm: CrmState, { cmd, halt }: Params, number: number, record: RecordedRequest) {
	const billsBatch = crm.billing === 'batch';
	if (billsBatch && !crm.operating.admit('batch')) throw new RestError('OPERATION_TIME_LIMIT');
	const halts = [true, 'true', 1, '1'].includes(halt as string);
	const results = new Map<string, unknown>();
	const maps = { result_error: [], result_total: [], result_next: [], result_time: [] } as Record<
		string,
		[string, unknown][]
	>;
	let seconds = 0;
	record.calls = [];
	// A list of commands has the keys 0, 1, 2 ….
	for (const [index, [key, command]] of Object.entries(isMap(cmd) || Array.isArray(cmd) ? cmd : {}).entries()) {
		const [method = '', ...query] = String(command).split('?');
		const call: BatchCall = { method, params: parseQuery(query.join('?')) };
		record.calls.push(call);
		try {
			if (index >= maxCommands) throw new RestError('ERROR_BATCH_LENGTH_EXCEEDED');
			if (method === 'batch') throw new RestError('ERROR_BATCH_METHOD_NOT_ALLOWED');
			call.params = withResults(call.params, results) as Params;
			const faults = crm.faults.take({ number, ...call }, true);
			seconds += crm.secondsOf(method);
			const { result, total, next, time } = await callMethod(crm, call, faults, !billsBatch);
			results.set(key, result);
			if (total !== undefined) maps.result_total?.push([key, total]);
			if (next !== undefined) maps.result_next?.push([key, next]);
			maps.result_time?.push([key, time]);
		} catch (error) {
			if (!(error instanceof RestError)) throw error;
			call.error = error.code;
			// Its key is missing from `result` and `result_time`.
			maps.result_error?.push([key, { error: error.code, error_description: error.description }]);
			if (halts) break;
		}
	}
	if (billsBatch) crm.operating.add('batch', seconds);
	const encoded = Object.entries(maps).map(([name, entries]) => [name, encodeArray(entries)] as const);
	return {
		result: { result: encodeArray([...results]), ...Object.fromEntries(encoded) },
		time: timeOf(crm, 'batch', billsBatch ? seconds : 0),
	};
}

/** Replaces `$result[key][field]` in parameters. What an earlier command has not returned is an error, never an empty value. */
function withResults(value: unknown, results: Map<string, unknown>): unknown {
	if (Array.isArray(value)) return value.map((each) => withResults(each, results));
	if (isMap(value))
		return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withResults(each, results)]));
	return String(value).replace(/\$result((?:\[[^\]]*\])+)/g, (reference, path: string) => {
		const [key = '', ...fields] = path.slice(1, -1).split('][');
		const found = fields.reduce<unknown>((part, field) => (part as Params | undefined)?.[field], results.get(key));
		if (typeof found !== 'string' && typeof found !== 'number')
			throw new RestError('INVALID_ARG_VALUE', `${reference} is not in the results`);
		return String(found);
	});
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
