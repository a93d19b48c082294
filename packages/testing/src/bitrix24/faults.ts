import type { Params } from './php-values.js';

/** A request over HTTP, before it is handled. */
export interface RequestInfo {
	/** Its place among all requests to this stand-in, from 1; those that the rate limit refused count too. */
	number: number;
	method: string;
	params: Params & { filter?: Params };
}

/** Something that goes wrong. */
export type Fault =
	/** An error body. The status is that of the switches' table unless the fault has one: 200 is possible. */
	| { kind: 'error'; code: string; status?: number; description?: string }
	/** A page for people, as a gateway or a portal under maintenance sends it. */
	| { kind: 'html'; status: number }
	/** Another address, at which the request would have to be repeated. */
	| { kind: 'redirect'; to?: string }
	/** Status 200 and a body without `result`. */
	| { kind: 'no-result' }
	/** The response says nothing of the portal's clock. */
	| { kind: 'without-time' }
	/** The response's JSON ends in the middle; as HTTP it is complete. */
	| { kind: 'truncated-json' }
	/** The connection breaks in the middle of the response. */
	| { kind: 'cut-off' }
	/** The connection is reset without a response. */
	| { kind: 'reset' }
	/** No response at all; the request was handled. */
	| { kind: 'hang' }
	/** The response comes late: after a time of the real clock, or when a test says so. */
	| { kind: 'slow'; milliseconds?: number; until?: Promise<unknown> }
	/** The rows of a list are `[]`. */
	| { kind: 'array-items' }
	/** A list without rows, with total 0 where it is counted. */
	| { kind: 'empty-list' }
	/** Rows and items lack these fields: companyIds, fm, PHONE ... */
	| { kind: 'without-fields'; fields: string[] }
	/** Rows and items have these values, whatever is stored. */
	| { kind: 'with-fields'; values: Record<string, unknown> };

/** Which requests a fault is for. Default: all requests over HTTP. */
interface FaultTarget {
	/** Calls of this method: over HTTP, and inside a batch. */
	method?: string;
	/** True: inside a batch only. False: over HTTP only. */
	inBatch?: boolean;
	/** Only requests for which this returns true. Inside a batch, the number is that of the batch. */
	when?: (request: RequestInfo) => boolean;
}

interface Entry {
	fault: Fault;
	target: FaultTarget;
	/** The number of calls that it still affects. */
	left: number;
}

/** Rows of responses that are changed, not replaced: these reach into batches even without a method. */
const mangling = new Set<Fault['kind']>(['array-items', 'empty-list', 'without-fields', 'with-fields']);

/** What goes wrong, and when. It does not affect requests that the rate limit refuses. */
export class FaultScript {
	#queue: Entry[] = [];
	#standing: Entry[] = [];

	/** For the next matching call, after the faults that were scripted before. Each fault affects one call. */
	next(fault: Fault, target: FaultTarget & { times?: number } = {}): void {
		const { times = 1, ...rest } = target;
		this.#queue.push({ fault, target: rest, left: times });
	}

	/** For every matching call from now on. */
	always(fault: Fault, target: FaultTarget = {}): void {
		this.#standing.push({ fault, target, left: Number.POSITIVE_INFINITY });
	}

	/** Removes all faults that have not happened yet. */
	clear(): void {
		this.#queue = [];
		this.#standing = [];
	}

	/** The number of faults that have not happened yet, without the standing ones. */
	get pending(): number {
		return this.#queue.reduce((sum, entry) => sum + entry.left, 0);
	}

	/** The faults of this call: the next one of the script that matches, then the standing ones. */
	take(request: RequestInfo, inBatch: boolean): Fault[] {
		const next = this.#queue.find((entry) => isMatch(entry, request, inBatch));
		if (next !== undefined && --next.left === 0) this.#queue = this.#queue.filter((entry) => entry !== next);
		const standing = this.#standing.filter((entry) => isMatch(entry, request, inBatch));
		return [...(next === undefined ? [] : [next]), ...standing].map((entry) => entry.fault);
	}
}

function isMatch({ fault, target, left }: Entry, request: RequestInfo, inBatch: boolean): boolean {
	if (target.inBatch !== undefined && target.inBatch !== inBatch) return false;
	if (target.method !== undefined && target.method.toLowerCase() !== request.method.toLowerCase()) return false;
	// Without a method, a batch is one request; only standing changes of rows reach its commands.
	const reaches = target.method !== undefined || target.inBatch === true;
	if (inBatch && !reaches && !(left === Number.POSITIVE_INFINITY && mangling.has(fault.kind))) return false;
	return target.when?.(request) ?? true;
}
