import { DatabaseBusyError, DatabaseError, DeadlineError, type FailureReason, failureReason } from './errors.js';

/** One caller's turn at the database. Times are milliseconds of `performance.now()`. */
export interface Turn {
	readonly askedAt: number;
	/** The deadline of the caller's response. */
	readonly until: number;
	/** When one of its statements first got a connection. */
	startedAt?: number;
}

interface AdmissionOptions {
	/** The deadline of a caller's response, in milliseconds. */
	deadlineMs: number;
	/** Maximum number of callers that wait at once. Each holds memory. */
	maxWaiting: number;
	/** A monotonic clock in milliseconds. */
	clock: () => number;
	onFailure: (reason: FailureReason) => void;
}

/** Up to this many callers may wait until their deadline, so that they survive a short outage of the database. */
const alwaysAdmitted = 50;

/** A shorter wait is not a sign of a queue: a checkpoint or a garbage collection takes as long. */
const minQueueWaitMs = 250;

/** The maximum time that a caller waits behind others, estimated from the current service rate. */
const maxQueueWaitMs = 500;

/**
 * Decides who may wait for the database, for how long, and what a failure means for the caller. `run` itself refuses only at
 * `maxWaiting`. The rule about the last half second is `isFull`: load shedding, the list cache and the change feed ask it
 * before they do any work.
 *
 * In a growing queue, every caller waits longer, until none is served in time. So once waits become noticeable, the queue
 * is limited to the number of callers served within the last half second. A new caller then waits about that long. A
 * refused caller gets an error at once, and can retry.
 *
 * If a caller had no turn until its deadline, but others were served, the database is busy (503). In every other case the
 * database has failed (500).
 */
export class Admission {
	/** When each caller was admitted, oldest first. */
	readonly #waiting = new Map<Turn, number>();
	readonly #served: RecentCount;
	/** How long the last served caller waited, in milliseconds. */
	#lastWaitMs = 0;
	#successes = 0;

	constructor(readonly options: AdmissionOptions) {
		this.#served = new RecentCount(maxQueueWaitMs);
	}

	get waiting(): number {
		return this.#waiting.size;
	}

	/** Whether a new request would wait for too long. Check this before doing any work for it. */
	get isFull(): boolean {
		const waiting = this.#waiting.size;
		if (waiting >= this.options.maxWaiting) return true;
		if (waiting < alwaysAdmitted) return false;
		const now = this.options.clock();
		const served = this.#served.count(now);
		const [oldest = now] = this.#waiting.values();
		// A wait of long ago says nothing about the queue now.
		const waitMs = Math.max(now - oldest, served > 0 ? this.#lastWaitMs : 0);
		return waitMs > minQueueWaitMs && waiting > served;
	}

	/**
	 * @param askedAt when the caller's request began, in milliseconds of `performance.now()`
	 * @throws DatabaseBusyError at once when `maxWaiting` callers wait, or at the deadline when it had no turn while others
	 *   were served
	 * @throws DatabaseError in every other case
	 */
	async run<Result>(work: (turn: Turn) => Promise<Result>, askedAt = performance.now()): Promise<Result> {
		const { clock, deadlineMs, maxWaiting, onFailure } = this.options;
		if (this.#waiting.size >= maxWaiting) {
			onFailure('busy');
			throw new DatabaseBusyError();
		}
		const turn: Turn = { askedAt, until: askedAt + deadlineMs };
		const admittedAt = clock();
		const successesBefore = this.#successes;
		this.#waiting.set(turn, admittedAt);
		try {
			const result = await work(turn);
			this.#successes++;
			return result;
		} catch (error) {
			if (error instanceof DatabaseError || error instanceof DatabaseBusyError) throw error;
			const isBusy = error instanceof DeadlineError && !error.hadTurn && this.#successes > successesBefore;
			onFailure(isBusy ? 'busy' : failureReason(error));
			throw isBusy ? new DatabaseBusyError() : new DatabaseError(error);
		} finally {
			this.#waiting.delete(turn);
			const now = clock();
			this.#lastWaitMs = now - admittedAt;
			this.#served.add(now);
		}
	}
}

const slices = 4;

/** Counts the events of the last `windowMs` milliseconds, with a resolution of a quarter of the window. */
class RecentCount {
	readonly #counts = new Array<number>(slices).fill(0);
	#current = 0;

	constructor(readonly windowMs: number) {}

	add(now: number): void {
		const slice = this.#advance(now);
		this.#counts[slice] = (this.#counts[slice] ?? 0) + 1;
	}

	count(now: number): number {
		this.#advance(now);
		return this.#counts.reduce((sum, count) => sum + count, 0);
	}

	#advance(now: number): number {
		const slice = Math.floor((now * slices) / this.windowMs);
		for (let passed = Math.min(slice - this.#current, slices); passed > 0; passed--)
			this.#counts[(slice - passed + 1) % slices] = 0;
		this.#current = slice;
		return slice % slices;
	}
}

/**
 * Joins a query under way, or starts one. A shared query fails at the deadline of the caller that started it. One that joined
 * it and has time left asks again, once.
 *
 * @param until the caller's deadline, in milliseconds of `performance.now()`
 */
export async function shareQuery<Result>(
	underWay: () => Promise<Result> | undefined,
	start: () => Promise<Result>,
	until: number,
): Promise<Result> {
	const known = underWay();
	if (known === undefined) return start();
	try {
		return await known;
	} catch (error) {
		if (failureReason(error) !== 'deadline' || performance.now() >= until) throw error;
		return underWay() ?? start();
	}
}
