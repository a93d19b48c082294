import { Admission } from './admission.js';
import type { ClientOptions, PendingStatement, Sql } from './client.js';
import { type CursorReader, createCursorReader } from './cursor.js';
import { type Deadline, startDeadline } from './deadline.js';
import type { FailureReason } from './errors.js';
import { createWriteSender, type WriteStatement, type WrittenRows } from './expiring-write.js';
import { ConnectionPool } from './pool.js';

/** The interface of the database for requests. */
export interface Database {
	/**
	 * Runs one statement for a new caller, as `read` does.
	 *
	 * @throws DatabaseError, DatabaseBusyError: see `Admission`
	 */
	query<Rows>(statement: Statement<Rows>): Promise<Rows>;
	/** Admits a caller with several statements, or with statements that are shared with others, or refuses it. The errors are the same. */
	admit<Result>(work: () => Promise<Result>): Promise<Result>;
	/**
	 * Runs one idempotent statement of an admitted caller, which may be executed at any later time. It is sent a second time if its
	 * connection is lost or does not respond. Its connection is closed when the deadline has passed.
	 *
	 * @throws the original error, which `admit` converts
	 */
	read<Rows>(statement: Statement<Rows>, options: ReadOptions): Promise<Rows>;
	/**
	 * Runs one idempotent statement of an admitted caller that must not be executed after a newer one: it carries an expiry. It is sent again if
	 * the first attempt can no longer be executed and there is time.
	 *
	 * @returns its rows; without `repeatsUndone` some may have no outcome
	 * @throws StoodStillError, NoOutcomeError, and what `read` throws. The statement can then no longer be executed. It may have been
	 *   executed already, if only its response was lost.
	 */
	write<Rows extends WrittenRows>(statement: WriteStatement<Rows>, options: WriteOptions): Promise<Rows>;
	/** Counts somebody as waiting for capacity: see `Admission`. @returns a function to call when the wait is over */
	startWaiting(): () => void;
	/** Whether a new caller is refused: see `Admission`. */
	readonly isFull: boolean;
	/**
	 * Uses new connections from now on, because the others may be lost, or lead to a former primary. Running statements and
	 * cursors are not ended.
	 */
	renew(): void;
	/**
	 * Reads a long result in batches with a cursor. The whole result is a snapshot of the moment at which the statement
	 * began. Each batch is requested after the one before was processed. The cursor keeps its connection until the generator
	 * is finished: read it to its end, or call its `return()`.
	 *
	 * @throws DatabaseError when it fails or a batch exceeds the deadline; the batches so far are then incomplete
	 * @throws DatabaseBusyError at once, when the maximum number of cursors is open
	 */
	readInBatches: CursorReader['read'];
	/** The maximum time that a caller waits for a response, in milliseconds. */
	readonly deadlineMs: number;
	/** Connections for statements. Cursors have separate connections. */
	readonly connections: Pick<ConnectionPool, 'limit' | 'inUse' | 'waiting'>;
	/** Open cursors. */
	readonly reading: number;
	/** Reports everything to this observer from now on. There is only one observer. */
	observe(observer: DatabaseObserver): void;
	/** Closes all connections after their running statements, within 5 seconds. */
	close(): Promise<void>;
}

/** Receives every statement. It must be quick and not throw. */
interface DatabaseObserver {
	/**
	 * A statement has ended, successfully or not.
	 *
	 * @param waitedMs how long the statement waited for a connection
	 * @param tookMs how long it took until the response, including that wait
	 */
	onStatement(waitedMs: number, tookMs: number): void;
	/** A caller was refused, or its statement has failed. */
	onFailure(reason: FailureReason): void;
}

type Statement<Rows> = (sql: Sql) => PendingStatement<Rows>;

interface ReadOptions {
	/** That of the caller. */
	deadline: Deadline;
	/** Whether to send it over a new connection, because the others may lead to a former primary. */
	isOnNew: boolean;
}

interface WriteOptions {
	/** That of the caller. */
	deadline: Deadline;
	/**
	 * Whether to send it again after a temporary refusal by the server, such as a lock, and once if it has done nothing because it had
	 * expired or a stored row may be newer. Default: true.
	 */
	repeatsUndone?: boolean;
}

export interface DatabaseOptions extends ClientOptions {
	/** Maximum number of open connections for statements. */
	poolSize: number;
	/**
	 * The maximum time that a caller waits for a response, in milliseconds. The services respond to their callers within 5
	 * seconds.
	 */
	deadlineMs?: number;
	/** Maximum number of callers at once. */
	maxCallers?: number;
	/** A monotonic clock in milliseconds, for the time that callers have waited. */
	clock: () => number;
}

/** Opens the database for a service. It connects at the first statement. */
export function openDatabase(options: DatabaseOptions): Database {
	const { deadlineMs = 4000, maxCallers = 1000, clock } = options;
	let observer: DatabaseObserver | undefined;
	const onFailure = (reason: FailureReason) => observer?.onFailure(reason);
	const admission = new Admission({ maxCallers, clock, onFailure });
	const pool = new ConnectionPool({
		...options,
		admission,
		onStatement: (waitedMs, tookMs) => observer?.onStatement(waitedMs, tookMs),
	});
	const sendWrite = createWriteSender(pool);
	const cursors = createCursorReader({ ...options, deadlineMs, onFailure });

	return {
		query: (statement) => admission.run(() => pool.query(startDeadline(deadlineMs), statement)),
		admit: (work) => admission.run(work),
		read: (statement, { deadline, isOnNew }) => pool.query(deadline, statement, isOnNew),
		write: (statement, { deadline, repeatsUndone = true }) => sendWrite(deadline, statement, repeatsUndone),
		startWaiting: () => admission.startWaiting(),
		get isFull() {
			return admission.isFull;
		},
		renew() {
			pool.renew();
			cursors.renew();
		},
		readInBatches: cursors.read,
		deadlineMs,
		connections: pool,
		get reading() {
			return cursors.reading;
		},
		observe(next) {
			observer = next;
		},
		async close() {
			await Promise.all([pool.close(), cursors.close()]);
		},
	};
}
