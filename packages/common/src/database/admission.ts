import { DatabaseBusyError, DatabaseError, DeadlineError, type FailureReason, failureReason } from './errors.js';

/** One caller's turn at the database. Times are milliseconds of `performance.now()`. */
export interface Turn {
	readonly askedAt: number;
	/** When the caller gets a response, whatever it is. */
	readonly until: number;
	/** When a statement for it first got a connection. */
	startedAt?: number;
}

interface AdmissionOptions {
	/** Milliseconds after which a caller gets a response. */
	deadlineMs: number;
	/** No more callers wait at once: each holds memory. */
	maxWaiting: number;
	/** Milliseconds that never go back. */
	clock: () => number;
	onFailure: (reason: FailureReason) => void;
}

/** So few callers may wait for as long as it takes: a short outage of the database is waited through. */
const alwaysAdmitted = 50;

/** A shorter wait is no sign of a queue: a checkpoint or a garbage collection takes as long. */
const minQueueWaitMs = 250;

/** A caller is to wait no longer than this behind others, at the rate at which they were served. */
const maxQueueWaitMs = 500;

/**
 * The one place that decides who may wait for the database, for how long, and what a failure means for the caller.
 *
 * In a queue that grows, everybody waits until nobody is served in time. So once callers wait for longer than a moment, only
 * as many may wait as were served within the last half second: a new one then waits about as long. Whoever is refused is told
 * so at once, and comes back.
 *
 * A caller that had no turn until its deadline although others were served finds the database busy (503). In every other
 * case the database has failed (500).
 */
export class Admission {
	/** When each caller was admitted, in that order. */
	readonly #waiting = new Map<Turn, number>();
	readonly #served: RecentCount;
	/** Milliseconds that the caller that was served last has waited. */
	#lastWaitMs = 0;
	#successes = 0;

	constructor(readonly options: AdmissionOptions) {
		this.#served = new RecentCount(maxQueueWaitMs);
	}

	get waiting(): number {
		return this.#waiting.size;
	}

	/** Whether a new request would wait for too long: ask before it costs anything. */
	get isFull(): boolean {
		const waiting = this.#waiting.size;
		if (waiting >= this.options.maxWaiting) return true;
		if (waiting < alwaysAdmitted) return false;
		const now = this.options.clock();
		const served = this.#served.count(now);
		const [oldest = now] = this.#waiting.values();
		// A wait of long ago tells nothing.
		const waitMs = Math.max(now - oldest, served > 0 ? this.#lastWaitMs : 0);
		return waitMs > minQueueWaitMs && waiting > served;
	}

	/**
	 * @throws DatabaseBusyError at once when as many wait as may, or when it had no turn until its deadline while others were served
	 * @throws DatabaseError whatever else went wrong
	 */
	async run<Result>(work: (turn: Turn) => Promise<Result>): Promise<Result> {
		const { clock, deadlineMs, maxWaiting, onFailure } = this.options;
		if (this.#waiting.size >= maxWaiting) {
			onFailure('busy');
			throw new DatabaseBusyError();
		}
		const askedAt = performance.now();
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

/** Counts what happened within the last `windowMs` milliseconds, to a quarter of them. */
export class RecentCount {
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
