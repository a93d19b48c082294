import { RestError } from './errors.js';
import { ActiveFaults } from './fault-effects.js';
import type { RequestInfo } from './hooks.js';
import { callMethod } from './methods.js';
import { encodeArray, isMap, type Params, parseQuery, toBoolean } from './php-values.js';
import type { Portal } from './portal.js';

/** [DOC] More commands than these are refused one by one. */
const mostCommands = 50;

/** A command of a batch, as the stand-in records it. */
export interface BatchCall {
	key: string;
	method: string;
	params: Params;
	error?: string;
}

type Entries = [key: string, value: unknown][];

/**
 * batch: several calls in one request, one after the other. [DOC] It counts once for the rate limit, but each command for the
 * operating time of its method. Its own status is 200 whatever its commands did; their errors are in `result_error`.
 */
export async function runBatch(portal: Portal, request: RequestInfo, calls: BatchCall[]): Promise<Params> {
	const { cmd, halt } = request.params as Params;
	const commands: Entries = isMap(cmd) || Array.isArray(cmd) ? Object.entries(cmd) : [];
	const result: Entries = [];
	const errors: Entries = [];
	const totals: Entries = [];
	const nexts: Entries = [];
	const times: Entries = [];

	for (const [index, [key, command]] of commands.entries()) {
		const call: BatchCall = { key, ...parseCommand(String(command), result) };
		calls.push(call);
		try {
			if (index >= mostCommands) throw new RestError('ERROR_BATCH_LENGTH_EXCEEDED', 'Max batch length exceeded');
			const response = await runCommand(portal, request.number, call);
			result.push([key, response.result]);
			if (response.total !== undefined) totals.push([key, response.total]);
			if (response.next !== undefined) nexts.push([key, response.next]);
			times.push([key, response.time]);
		} catch (error) {
			if (!(error instanceof RestError)) throw error;
			call.error = error.code;
			// [REC] Its key is missing from `result` and `result_time`.
			errors.push([key, { error: error.code, error_description: error.description }]);
			if (toBoolean(halt)) break;
		}
	}
	return {
		result: encodeArray(result),
		result_error: encodeArray(errors),
		result_total: encodeArray(totals),
		result_next: encodeArray(nexts),
		result_time: encodeArray(times),
	};
}

function runCommand(portal: Portal, number: number, { method, params }: BatchCall) {
	// [DOC] No batch inside a batch.
	if (method.toLowerCase() === 'batch') {
		throw new RestError('ERROR_BATCH_METHOD_NOT_ALLOWED', 'Method is not allowed for batch usage');
	}
	const faults = new ActiveFaults(portal.faults.take({ number, method, params }, true));
	faults.changePortal(portal);
	return callMethod(portal, method, params, faults);
}

/** "crm.item.get?entityTypeId=3&id=$result[c0][items][0][id]", its values percent-encoded. [DOC] */
function parseCommand(command: string, results: Entries): { method: string; params: Params } {
	const mark = command.indexOf('?');
	const method = (mark < 0 ? command : command.slice(0, mark)).trim();
	const params = mark < 0 ? {} : parseQuery(command.slice(mark + 1));
	return { method, params: resolve(params, results) as Params };
}

/** Puts results of earlier commands in. [FIELD] What isn't there is empty, and no error of its own. */
function resolve(value: unknown, results: Entries): unknown {
	if (Array.isArray(value)) return value.map((one) => resolve(one, results));
	if (isMap(value)) {
		return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, resolve(one, results)]));
	}
	if (typeof value !== 'string') return value;
	const whole = /^\$result((?:\[[^\]]*\])+)$/.exec(value);
	if (whole !== null) return lookUp(whole[1] ?? '', results) ?? '';
	return value.replaceAll(/\$result((?:\[[^\]]*\])+)/g, (_all, path: string) => String(lookUp(path, results) ?? ''));
}

function lookUp(path: string, results: Entries): unknown {
	const [key, ...rest] = [...path.matchAll(/\[([^\]]*)\]/g)].map((match) => match[1] ?? '');
	const found = results.find(([name]) => name === key)?.[1];
	return rest.reduce<unknown>((value, name) => {
		if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
		return (value as Params)[name];
	}, found);
}
