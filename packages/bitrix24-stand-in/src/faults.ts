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
	/** Requests that this is true of. Inside a batch, the number is that of the batch. */
	when?: (request: RequestInfo) => boolean;
}

interface Entry {
	fault: Fault;
	target: FaultTarget;
	/** How many calls it is still for. */
	left: number;
}

/** Rows of responses that are changed, not replaced: these reach into batches even without a method. */
const mangling = new Set<Fault['kind']>(['array-items', 'empty-list', 'without-fields', 'with-fields']);

/** What goes wrong, and when. Requests that the rate limit refuses are not in it. */
export class FaultScript {
	#queue: Entry[] = [];
	#standing: Entry[] = [];

	/** For the next call that is meant, after those that were scripted before; each affects one call. */
	next(fault: Fault, target: FaultTarget & { times?: number } = {}): void {
		const { times = 1, ...rest } = target;
		this.#queue.push({ fault, target: rest, left: times });
	}

	/** For every call that is meant, from now on. */
	always(fault: Fault, target: FaultTarget = {}): void {
		this.#standing.push({ fault, target, left: Number.POSITIVE_INFINITY });
	}

	/** Forgets what is still to come. What faults have changed for good (a revoked webhook) stays. */
	clear(): void {
		this.#queue = [];
		this.#standing = [];
	}

	/** How many calls the script is still waiting for, without the standing faults. */
	get pending(): number {
		return this.#queue.reduce((sum, entry) => sum + entry.left, 0);
	}

	/** What happens to this call: the script's next fault that is meant for it, and the standing ones after it. */
	take(request: RequestInfo, inBatch: boolean): Fault[] {
		const next = this.#queue.find((entry) => isMeant(entry, request, inBatch));
		if (next !== undefined && --next.left === 0) this.#queue = this.#queue.filter((entry) => entry !== next);
		const standing = this.#standing.filter((entry) => isMeant(entry, request, inBatch));
		return [...(next === undefined ? [] : [next]), ...standing].map((entry) => entry.fault);
	}
}

function isMeant({ fault, target, left }: Entry, request: RequestInfo, inBatch: boolean): boolean {
	if (target.inBatch !== undefined && target.inBatch !== inBatch) return false;
	if (target.method !== undefined && target.method.toLowerCase() !== request.method.toLowerCase()) return false;
	// Without a method, a batch is one request; only standing changes of rows reach its commands.
	const reaches = target.method !== undefined || target.inBatch === true;
	if (inBatch && !reaches && !(left === Number.POSITIVE_INFINITY && mangling.has(fault.kind))) return false;
	return target.when?.(request) ?? true;
}
