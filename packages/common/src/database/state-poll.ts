import type { Sql } from './client.js';
import { remainingMs, startDeadline, timedOut, withTimeout } from './deadline.js';
import { classify, closedError, DatabaseBusyError, DatabaseError, DeadlineError } from './errors.js';
import { HedgedQuestion, type QuestionOptions } from './hedged-question.js';
import { type ServerRow, stateStatement } from './state-poll.sql.js';

/** The state of the database, as a poll found it on the primary. */
export interface DatabaseState extends ServerRow {
	server: string;
	/** What the program watches, by the names of the columns. */
	watched: Readonly<Record<string, unknown>>;
	/**
	 * Another number means another server, or another connection of the poll. Then everything may have changed: after a
	 * failover that lost commits, or after a volume was put back, another change may have the same version.
	 */
	generation: number;
	/** When the poll began that found it last, in milliseconds of the clock. */
	confirmedAt: number;
	/** The same, in milliseconds since the epoch, for people. */
	foundAt: number;
}

/** Reads what depends on the state, over the connection of the poll. */
type Follower = (state: DatabaseState, sql: Sql) => Promise<void>;

export interface StatePoll {
	/** The last state that was found; undefined before the first. */
	readonly state: DatabaseState | undefined;
	/** The same, if a poll that began within the last second found it. */
	readonly confirmed: DatabaseState | undefined;
	/**
	 * Returns a state that was confirmed at most a second before this call. If there is none, it waits for a poll, which all
	 * callers share.
	 *
	 * @throws DatabaseError when the poll fails or the time is over
	 * @throws DatabaseBusyError at once, when too many callers wait
	 */
	confirm(timeoutMs: number): Promise<DatabaseState>;
	/** Returns the state that a poll finds that begins after this call. The errors are those of `confirm`. */
	refresh(timeoutMs: number): Promise<DatabaseState>;
	/** Calls only this in each poll before the state counts as confirmed. If it fails, the poll has failed. */
	follow(follower: Follower): void;
	/** Uses a new connection for the next poll. A session keeps the settings with which it began. */
	reconnect(): void;
	close(): Promise<void>;
}

export interface StatePollOptions extends Omit<QuestionOptions, 'statement'> {
	/** Columns that the program watches: see `stateStatement`. Its role must be allowed to read them. */
	watched: readonly string[];
	/** Called once when polls start to fail, and once without an error when they work again. */
	onStateChange?: (error: unknown) => void;
	/** Called when another server responds than before, or the same over another connection: earlier ones may be lost too. */
	onReconnect?: () => void;
	/** Milliseconds from the start of a poll to the start of the next. */
	intervalMs?: number;
	/** A monotonic clock in milliseconds. */
	clock: () => number;
}

/** Four polls fit into the second within which a change must be seen. */
const defaultIntervalMs = 250;

/** How old a confirmed state may be, in milliseconds: after this time every process has seen a change, or serves nothing. */
export const maxStateAgeMs = 1000;

/** The maximum time of a poll, and of what follows it. A caller waits no longer for the database either. */
const maxPollMs = 4000;

/** Maximum number of callers that wait at once. Each holds memory. */
const maxCallers = 1000;

/**
 * Asks the database again and again who it is and what has changed, over a connection that requests can't occupy. It starts
 * with the first caller. See docs/decisions/state-poll.md.
 */
export function openStatePoll(options: StatePollOptions): StatePoll {
	const { intervalMs = defaultIntervalMs, clock } = options;
	const statement = stateStatement(options.watched);
	const question = new HedgedQuestion<ServerRow>({ ...options, statement }, maxPollMs);
	let follower: Follower = async () => undefined;
	let state: DatabaseState | undefined;
	/** The number of the last poll, and of the one that found `state`. */
	let [last, found] = [0, 0];
	let [generation, server] = [0, ''];
	let running: Promise<void> | undefined;
	/** The next poll, which a timer starts. */
	let scheduled: Promise<void> | undefined;
	let timer: NodeJS.Timeout | undefined;
	let failing = false;
	let closed = false;
	let callers = 0;

	async function poll(): Promise<void> {
		const [number, confirmedAt, foundAt] = [++last, clock(), Date.now()];
		const { row, sql, isReconnected } = await question.ask();
		const { server: identity, readOnly, ...watched } = row;
		if (identity === null) {
			// The name may lead to the primary by the next poll.
			question.reconnect();
			throw Object.assign(new Error('the server is a standby'), { code: 'NO_SUITABLE_SERVER' });
		}
		if (identity !== server || isReconnected) {
			generation++;
			// Not at the first poll: nothing was opened before it.
			if (server !== '') options.onReconnect?.();
		}
		server = identity;
		const next = { server, readOnly, watched, generation, confirmedAt, foundAt };
		if ((await withTimeout(follower(next, sql), maxPollMs)) === timedOut) {
			question.reconnect();
			throw new DeadlineError(maxPollMs, true);
		}
		state = next;
		found = number;
	}

	function report(error?: unknown): void {
		if (closed || failing === (error !== undefined)) return;
		failing = error !== undefined;
		options.onStateChange?.(error);
	}

	/** Starts a poll, or returns the running one. */
	function start(): Promise<void> {
		clearTimeout(timer);
		running ??= (async () => {
			const begunAt = clock();
			try {
				await poll();
				report();
			} catch (error) {
				const failure = new DatabaseError(error);
				report(failure);
				throw failure;
			} finally {
				running = undefined;
				const pauseMs = failing ? Math.min(intervalMs, defaultIntervalMs) : intervalMs;
				schedule(pauseMs - (clock() - begunAt));
			}
		})();
		return running;
	}

	function schedule(delayMs: number): void {
		if (closed) return;
		scheduled = new Promise((resolve, reject) => {
			timer = setTimeout(() => start().then(resolve, reject), Math.max(0, delayMs));
			timer.unref();
		});
		scheduled.catch(() => undefined);
	}

	/** The next poll to end. One is started for the caller, unless polls fail: then the database is asked no more often. */
	const nextPoll = () => running ?? (failing && scheduled !== undefined ? scheduled : start());

	async function waitUntil(isEnough: () => boolean, timeoutMs: number): Promise<DatabaseState> {
		if (callers >= maxCallers) throw new DatabaseBusyError();
		const deadline = startDeadline(timeoutMs);
		let hasLost = false;
		callers++;
		try {
			for (;;) {
				if (closed) throw new DatabaseError(closedError());
				if (state !== undefined && isEnough()) return state;
				const outcome = await withTimeout(nextPoll(), remainingMs(deadline)).catch((error: DatabaseError) => {
					// Whatever closes one connection may close the next one too: one more poll tells.
					if (hasLost || classify(error).kind !== 'lost') throw error;
					hasLost = true;
				});
				if (outcome === timedOut) throw new DatabaseError(new DeadlineError(timeoutMs, true));
			}
		} finally {
			callers--;
		}
	}

	const isConfirmedAt = (time: number) => state !== undefined && time - state.confirmedAt < maxStateAgeMs;

	return {
		get state() {
			return state;
		},
		get confirmed() {
			return isConfirmedAt(clock()) ? state : undefined;
		},
		async confirm(timeoutMs) {
			const askedAt = clock();
			return waitUntil(() => isConfirmedAt(askedAt), timeoutMs);
		},
		async refresh(timeoutMs) {
			const before = last;
			return waitUntil(() => found > before, timeoutMs);
		},
		follow(callback) {
			follower = callback;
			state = undefined;
		},
		reconnect() {
			if (running === undefined) question.reconnect();
		},
		async close() {
			closed = true;
			clearTimeout(timer);
			await question.close();
		},
	};
}
