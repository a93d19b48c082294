import { RestError } from './errors.js';
import { ActiveFaults } from './fault-effects.js';
import type { RequestInfo } from './faults.js';
import { callMethod } from './methods.js';
import { encodeArray, isMap, type Params, toBoolean } from './php-values.js';
import type { Portal } from './portal.js';

/** [DOC] More commands than these are refused one by one. */
const maxCommands = 50;

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
		const call: BatchCall = { key, ...parseCommand(String(command)) };
		calls.push(call);
		try {
			if (index >= maxCommands) throw new RestError('ERROR_BATCH_LENGTH_EXCEEDED', 'Max batch length exceeded');
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
	return callMethod(portal, method, params, faults);
}

/** "crm.item.get?entityTypeId=3&id=5", its values percent-encoded. [DOC] */
function parseCommand(command: string): { method: string; params: Params } {
	const mark = command.indexOf('?');
	const method = (mark < 0 ? command : command.slice(0, mark)).trim();
	return { method, params: Object.fromEntries(new URLSearchParams(mark < 0 ? '' : command.slice(mark + 1))) };
}
