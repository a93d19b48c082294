import { Admission, type Turn } from './admission.js';
import type { ClientOptions, PendingStatement, Sql } from './client.js';
import { type CursorReader, createCursorReader } from './cursor.js';
import { type FailureReason, failureReason } from './errors.js';
import { type ClockedRows, createWriteSender, type WriteStatement } from './expiring-write.js';
import { ConnectionPool } from './pool.js';

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

interface QueryOptions {
	/**
	 * When the caller's request began, in milliseconds of `performance.now()`: its deadline counts from then, however many
	 * statements its response needs. Default: now.
	 */
	askedAt?: number | undefined;
	/** Whether to send it over a new connection, because the others may lead to a former primary. Default: false. */
	isOnNew?: boolean;
}

interface WriteOptions {
	/** The turn of a caller that was already admitted. Without it, this call is admitted as a new caller. */
	turn?: Turn;
	/** Whether to send it again after a temporary refusal by the server, such as a lock. Default: true. */
	retryRefused?: boolean;
}

/** The interface of the database for requests. */
export interface Database {
	/**
	 * Runs one idempotent statement that may be executed at any later time. It is sent a second time if its connection is
	 * lost or does not respond. Its connection is closed when the deadline has passed.
	 *
	 * @throws DatabaseError, DatabaseBusyError: see `Admission`
	 */
	query<Rows>(statement: (sql: Sql) => PendingStatement<Rows>, options?: QueryOptions): Promise<Rows>;
	/**
	 * Runs one idempotent statement that must not be executed after a newer one: it carries an expiry. It is sent again if
	 * the first attempt can no longer be executed and there is time.
	 *
	 * @returns its rows, including those that report that it has expired
	 * @throws DatabaseError, DatabaseBusyError: see `Admission`. With a turn, it throws the original error, which `admit`
	 *   converts. In both cases the statement can no longer be executed. It may have been executed already, if only its
	 *   response was lost.
	 */
	write<Rows extends ClockedRows>(statement: WriteStatement<Rows>, options?: WriteOptions): Promise<Rows>;
	/**
	 * Admits a caller whose statements are shared with others, or refuses it.
	 *
	 * @param askedAt see `QueryOptions`
	 */
	admit<Result>(work: (turn: Turn) => Promise<Result>, askedAt?: number): Promise<Result>;
	/** Whether a new request would wait for too long. */
	readonly isFull: boolean;
	/** Uses new connections from now on, because the others may be lost, or lead to a former primary. Running statements and cursors are not ended. */
	renew(): void;
	/**
	 * Reads a long result in batches with a cursor. The whole result is a snapshot of the moment at which the statement
	 * began. Each batch is requested after the one before was processed.
	 *
	 * @param onBatch resolves to whether to continue, and must not reject. The cursor keeps its connection until then.
	 * @throws DatabaseError when it fails or a batch exceeds the deadline; the batches so far are then incomplete
	 * @throws DatabaseBusyError at once, when the maximum number of cursors is open
	 */
	readInBatches: CursorReader['read'];
	/** The maximum time that a caller waits for a response, in milliseconds. */
	readonly deadlineMs: number;
	/** Callers that wait for a response. */
	readonly waiting: number;
	/** Connections for statements. Cursors have separate connections. */
	readonly connections: Pick<ConnectionPool, 'limit' | 'inUse' | 'waiting'>;
	/** Open cursors. */
	readonly reading: number;
	/** Reports everything to this observer from now on. There is only one observer. */
	observe(observer: DatabaseObserver): void;
	/** Closes all connections after their running statements, within 5 seconds. */
	close(): Promise<void>;
}

export interface DatabaseOptions extends ClientOptions {
	/**
	 * The maximum time that a caller waits for a response, in milliseconds. The services respond to their callers within 5
	 * seconds.
	 */
	deadlineMs?: number;
	/** Maximum number of callers that wait at once. */
	maxWaiting?: number;
	/** Maximum number of cursors that are open at once. */
	maxReaders?: number;
	/** A monotonic clock in milliseconds. Default: that of the process. */
	clock?: (() => number) | undefined;
}

/** Opens the database for a service. It connects at the first statement. */
export function openDatabase(options: DatabaseOptions): Database {
	const { deadlineMs = 4000, maxWaiting = 1000, maxReaders = 4, clock = () => performance.now() } = options;
	let observer: DatabaseObserver | undefined;
	const onFailure = (reason: FailureReason) => observer?.onFailure(reason);
	const admission = new Admission({ deadlineMs, maxWaiting, clock, onFailure });
	const pool = new ConnectionPool(options);
	const sendWrite = createWriteSender(pool);
	const cursors = createCursorReader({ ...options, poolSize: maxReaders }, deadlineMs);

	async function timed<Rows>({ until }: Turn, send: (turn: Turn) => Promise<Rows>): Promise<Rows> {
		const turn: Turn = { askedAt: performance.now(), until };
		try {
			return await send(turn);
		} finally {
			const now = performance.now();
			observer?.onStatement((turn.startedAt ?? now) - turn.askedAt, now - turn.askedAt);
		}
	}

	return {
		query: (statement, { askedAt, isOnNew } = {}) =>
			admission.run((turn) => timed(turn, (own) => pool.query(own, statement, isOnNew)), askedAt),
		write(statement, { turn, retryRefused = true } = {}) {
			const send = (admitted: Turn) => timed(admitted, (own) => sendWrite(own, statement, retryRefused));
			return turn === undefined ? admission.run(send) : send(turn);
		},
		admit: (work, askedAt) => admission.run(work, askedAt),
		get isFull() {
			return admission.isFull;
		},
		renew() {
			pool.replaceAll();
			cursors.renew();
		},
		readInBatches: (...reading) =>
			cursors.read(...reading).catch((error: unknown) => {
				onFailure(failureReason(error));
				throw error;
			}),
		deadlineMs,
		get waiting() {
			return admission.waiting;
		},
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
