import { classify, DatabaseBusyError, DatabaseError, DeadlineError, type FailureReason } from './errors.js';

interface AdmissionOptions {
	/** Maximum number of callers at once, whatever they wait for. Each holds memory. */
	maxCallers: number;
	/** A monotonic clock in milliseconds. */
	clock: () => number;
	onFailure: (reason: FailureReason) => void;
}

/** Up to this many callers may always wait for capacity, so that they survive a short outage of the database. */
const alwaysAllowedToWait = 50;

/** A queue in which a caller has waited this long is growing. A checkpoint or a garbage collection takes less. */
const maxCapacityWaitMs = 500;

/**
 * Decides who may wait for the database, and what a failure means for the caller.
 *
 * In a growing queue every caller waits longer, until none is served in time. So a new caller is refused at once while more
 * than 50 others wait for capacity and the first of them has waited for half a second. Capacity is a connection, or a place
 * in a batch. A caller does not wait for capacity while its statement is executed, or while it waits for the row of its
 * chat: the database may be idle.
 *
 * If a caller waited for capacity until its deadline, but others were served, the database is busy (503). In every other
 * case the database has failed (500).
 */
export class Admission {
	/** When each of those who wait for capacity began to wait, the first one first. */
	readonly #waiting = new Set<{ since: number }>();
	/** How many have no response yet. */
	#callers = 0;
	#served = 0;

	constructor(readonly options: AdmissionOptions) {}

	/** Whether a new caller is refused. Ask this before doing any work for a request: `run` asks the same. */
	get isFull(): boolean {
		const { maxCallers, clock } = this.options;
		if (this.#callers >= maxCallers) return true;
		if (this.#waiting.size <= alwaysAllowedToWait) return false;
		const [first] = this.#waiting;
		return first !== undefined && clock() - first.since >= maxCapacityWaitMs;
	}

	/** Counts somebody as waiting for capacity. @returns a function to call when the wait is over */
	startWaiting(): () => void {
		const waiting = { since: this.options.clock() };
		this.#waiting.add(waiting);
		return () => this.#waiting.delete(waiting);
	}

	/**
	 * Admits a caller, or refuses it.
	 *
	 * @throws DatabaseBusyError at once when the queue is full, or at the deadline when it waited for capacity while others
	 *   were served
	 * @throws DatabaseError in every other case
	 */
	async run<Result>(work: () => Promise<Result>): Promise<Result> {
		const { onFailure } = this.options;
		if (this.isFull) {
			onFailure('busy');
			throw new DatabaseBusyError();
		}
		const servedBefore = this.#served;
		this.#callers++;
		try {
			const result = await work();
			this.#served++;
			return result;
		} catch (error) {
			if (error instanceof DatabaseError || error instanceof DatabaseBusyError) throw error;
			const isBusy = error instanceof DeadlineError && !error.wasSent && this.#served > servedBefore;
			onFailure(isBusy ? 'busy' : classify(error).reason);
			throw isBusy ? new DatabaseBusyError() : new DatabaseError(error);
		} finally {
			this.#callers--;
		}
	}
}
