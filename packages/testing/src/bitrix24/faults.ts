import { isMap, type Params, RestError } from './rest.js';

/** A request over HTTP or a command of a batch, before it is handled. */
export interface RequestInfo {
	/** The number of the request, from 1. Inside a batch, that of the batch. */
	number: number;
	method: string;
	params: Params & { filter?: Params };
}

/** Something that goes wrong. */
export type Fault =
	/** An error body. The status is the documented one unless the fault has one: 200 is possible. */
	| { kind: 'error'; code: string; status?: number; description?: string }
	/** A page for people, as a gateway or a CRM under maintenance sends it. */
	| { kind: 'html'; status: number }
	/** Another address, as of a renamed CRM. */
	| { kind: 'redirect'; to?: string }
	/** Status 200 and a body without `result`. */
	| { kind: 'no-result' }
	/** The response says nothing of the CRM's clock. */
	| { kind: 'without-time' }
	/** Something prints this in front of the response's JSON. */
	| { kind: 'text-before-json'; text: string }
	/** The response's JSON ends in the middle; as HTTP it is complete. */
	| { kind: 'truncated-json' }
	/** The connection breaks in the middle of the response. */
	| { kind: 'cut-off' }
	/** The connection is reset without a response. */
	| { kind: 'reset' }
	/** No response at all. */
	| { kind: 'hang' }
	/** A list without rows, with total 0 where it is counted. */
	| { kind: 'empty-list' }
	/** Rows and items have these values, whatever is stored. Undefined: they lack the field. */
	| { kind: 'with-fields'; values: Record<string, unknown> };

/** The faults that change rows. The others replace or break a response. */
const ofRows = new Set<Fault['kind']>(['empty-list', 'with-fields']);

/** Which requests a fault is for. Default: all requests over HTTP. */
interface FaultTarget {
	/** Calls of this method: over HTTP, and inside a batch. */
	method?: string;
	/** True: inside a batch only. False: over HTTP only. */
	inBatch?: boolean;
	when?: (request: RequestInfo) => boolean;
}

/** What goes wrong, and when. It does not affect requests that the rate limit refuses. */
export class FaultScript {
	#entries: { fault: Fault; target: FaultTarget; left: number }[] = [];

	/** For the next matching calls, after the faults that were scripted before. Each call has one of them. */
	next(fault: Fault, { times = 1, ...target }: FaultTarget & { times?: number } = {}): void {
		this.#entries.push({ fault, target, left: times });
	}

	/** For every matching call from now on. */
	always(fault: Fault, target: FaultTarget = {}): void {
		this.#entries.push({ fault, target, left: Number.POSITIVE_INFINITY });
	}

	clear(): void {
		this.#entries = [];
	}

	/** Returns the faults of a call: the next one, and those for every call. */
	take(request: RequestInfo, inBatch: boolean): Fault[] {
		const matching = this.#entries.filter(({ fault, target }) => {
			if (target.inBatch !== undefined && target.inBatch !== inBatch) return false;
			if (target.method !== undefined && target.method !== request.method) return false;
			// Without a method, a batch is one request, and only changes of rows reach its commands.
			if (inBatch && target.method === undefined && !target.inBatch && !ofRows.has(fault.kind)) return false;
			return target.when?.(request) ?? true;
		});
		const next = matching.find(({ left }) => Number.isFinite(left));
		if (next !== undefined && --next.left === 0) this.#entries = this.#entries.filter((entry) => entry !== next);
		return matching.filter((entry) => entry === next || !Number.isFinite(entry.left)).map(({ fault }) => fault);
	}
}

/** @throws RestError in place of a method's response */
export function throwError(faults: Fault[]): void {
	for (const fault of faults)
		if (fault.kind === 'error') throw new RestError(fault.code, fault.description, fault.status);
}

/** Changes the rows of a response. */
export function changeRows<Response extends { result: unknown; total?: number }>(
	response: Response,
	faults: Fault[],
): Response {
	const changed = { ...response };
	const each = (change: (row: Params) => unknown) => {
		const { result } = changed;
		if (!isMap(result)) return;
		if (Array.isArray(result.items)) changed.result = { ...result, items: result.items.map(change) };
		if (isMap(result.item)) changed.result = { ...result, item: change(result.item) };
	};
	for (const fault of faults) {
		if (fault.kind === 'with-fields') each((row) => ({ ...row, ...fault.values }));
		if (fault.kind === 'empty-list' && isMap(changed.result) && 'items' in changed.result) {
			changed.result = { items: [] };
			if (changed.total !== undefined) changed.total = 0;
		}
	}
	return changed;
}
