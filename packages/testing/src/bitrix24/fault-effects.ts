import { RestError } from './errors.js';
import type { Fault } from './faults.js';
import type { MethodResult } from './methods.js';
import { isMap, type Params } from './php-values.js';

/** The faults of one call, at the points at which they have their effects. */
export class ActiveFaults {
	readonly #faults: Fault[];

	constructor(faults: Fault[]) {
		this.#faults = faults;
	}

	/** The first fault of these kinds. */
	find<Kind extends Fault['kind']>(...kinds: Kind[]): Extract<Fault, { kind: Kind }> | undefined {
		return this.#faults.find((fault) => (kinds as string[]).includes(fault.kind)) as
			| Extract<Fault, { kind: Kind }>
			| undefined;
	}

	/** @throws RestError in place of the method's response */
	throwError(): void {
		const fault = this.find('error');
		if (fault !== undefined) throw new RestError(fault.code, fault.description, fault.status);
	}

	/** The method's response, changed. */
	mangle(response: MethodResult): MethodResult {
		return this.#faults.reduce((changed, fault) => {
			if (fault.kind === 'empty-list') return withoutRows(changed);
			if (fault.kind === 'array-items') return mapRows(changed, () => []);
			if (fault.kind === 'without-fields') return changeFields(changed, ([name]) => !fault.fields.includes(name));
			return fault.kind === 'with-fields' ? changeFields(changed, () => true, fault.values) : changed;
		}, response);
	}
}

function withoutRows(response: MethodResult): MethodResult {
	const result = rowsOf(response) === undefined ? response.result : replaceRows(response.result, []);
	return response.total === undefined ? { result } : { result, total: 0 };
}

/** Rows, or the one item, with the entries that are kept and with these values. */
function changeFields(
	response: MethodResult,
	keep: (entry: [name: string, value: unknown]) => boolean,
	values: Params = {},
): MethodResult {
	const change = (row: unknown) =>
		isMap(row) ? { ...Object.fromEntries(Object.entries(row).filter(keep)), ...values } : row;
	if (rowsOf(response) !== undefined) return mapRows(response, change);
	const { result } = response;
	if (isMap(result) && isMap(result.item)) return { ...response, result: { ...result, item: change(result.item) } };
	return { ...response, result: change(result) };
}

function mapRows(response: MethodResult, change: (row: unknown) => unknown): MethodResult {
	const rows = rowsOf(response);
	return rows === undefined ? response : { ...response, result: replaceRows(response.result, rows.map(change)) };
}

/** The rows of a list, in `result` or in `result.items`. */
function rowsOf({ result }: MethodResult): unknown[] | undefined {
	if (Array.isArray(result)) return result;
	return isMap(result) && Array.isArray(result.items) ? result.items : undefined;
}

function replaceRows(result: unknown, rows: unknown[]): unknown {
	return Array.isArray(result) ? rows : { ...(result as Params), items: rows };
}
