import { type BatchReader, createBatchReader } from './batches.js';
import { type ChangeListener, listenForChanges } from './change-listener.js';
import type { ClientOptions, PendingStatement, Sql } from './client.js';
import { DatabaseBusyError, DatabaseError, DeadlineError, type FailureReason, failureReason } from './errors.js';
import { type ConnectionUse, Lanes } from './lanes.js';
import { createReader } from './reads.js';
import type { Turn } from './turn.js';
import { type ClockedRows, createWriter, type WriteOptions, type WriteStatement } from './writes.js';

/** Is told of every statement. It must be quick and not throw. */
export interface DatabaseObserver {
	/**
	 * A statement is over, well or not.
	 *
	 * @param waited milliseconds until it got a connection
	 * @param took milliseconds from asking to the answer, the waiting in it
	 */
	onStatement(waited: number, took: number): void;
	/** A statement or a long reading has failed, or was refused. */
	onFailure(reason: FailureReason): void;
}

/** What requests see of the database. */
export interface Database {
	/**
	 * Runs one idempotent statement that may be executed at any later time: it is sent a second time when its connection was
	 * lost or does not respond, and its connection is ended when the deadline has passed.
	 *
	 * @throws DatabaseError whatever went wrong, within the deadline.
	 * @throws DatabaseBusyError at once, when too many callers wait already, or when the deadline has passed before it was its
	 *   turn, while others were answered.
	 */
	query<Rows>(statement: (sql: Sql) => PendingStatement<Rows>): Promise<Rows>;
	/**
	 * Runs one idempotent statement that must not be executed after a newer one: it carries an expiry, and is sent again
	 * when it can't be executed any more and there is time.
	 *
	 * @returns its rows, also those that say that it has expired
	 * @throws DatabaseError when it was refused, or has not been executed in time and never will be; within the deadline
	 * @throws DatabaseBusyError as for a query
	 */
	write<Rows extends ClockedRows>(statement: WriteStatement<Rows>, options?: WriteOptions): Promise<Rows>;
	/**
	 * Listens for changes that PostgreSQL notifies of, on a connection that knows when it is disconnected. When it listens
	 * again, statements and readings go over new connections from then on.
	 */
	listenForChanges(channel: string, onChange: () => void): ChangeListener;
	/**
	 * Reads a long result in batches, by a cursor, so all of it is of the one moment at which the statement began. Each batch
	 * is asked for when the one before has been taken.
	 *
	 * @param onBatch resolves whether to go on, and must not reject; until it does, a connection is kept for this reading
	 * @throws DatabaseError when it fails or a batch does not come within the deadline; what was taken before is not all
	 * @throws DatabaseBusyError at once, when as many as may read already
	 */
	readInBatches: BatchReader['read'];
	/** Statements under way or waiting for a connection. */
	readonly waiting: number;
	/** Connections of statements; those of long readings and of listening are apart. */
	readonly connections: ConnectionUse;
	/** Long readings under way. */
	readonly reading: number;
	/** Has everything told to this observer from now on; one alone is told. */
	observe(observer: DatabaseObserver): void;
	/** Ends all connections after the statements under way, within 5 seconds. */
	close(): Promise<void>;
}

export interface DatabaseOptions extends ClientOptions {
	/** The longest that a caller waits for an answer, in milliseconds. */
	deadline?: number;
	/** The most callers that wait at once. */
	maxWaiting?: number;
	/** The most long results that are read at once. */
	maxReaders?: number;
}

/** Opens the database for a service; nothing is connected before the first statement. */
export function openDatabase(options: DatabaseOptions): Database {
	const { deadline = 4000, maxWaiting = options.poolSize * 100, maxReaders = 8 } = options;
	const lanes = new Lanes(options);
	const read = createReader(lanes);
	const write = createWriter(lanes);
	const batches = createBatchReader({ ...options, poolSize: maxReaders, deadline });
	let underWay = 0;
	let observer: DatabaseObserver | undefined;
	/** When a statement was answered last. */
	let answeredAt = Number.NEGATIVE_INFINITY;

	/** The one gate: it decides who may wait, and whether the database is busy with others or has failed. */
	async function run<Rows>(send: (turn: Turn) => Promise<Rows>, until?: number): Promise<Rows> {
		if (underWay >= maxWaiting) {
			observer?.onFailure('busy');
			throw new DatabaseBusyError();
		}
		underWay++;
		const asked = performance.now();
		const turn: Turn = { asked, until: until ?? asked + deadline };
		try {
			const rows = await send(turn);
			answeredAt = performance.now();
			return rows;
		} catch (error) {
			// The database works, but for others.
			const overloaded = error instanceof DeadlineError && !error.hadTurn && answeredAt > asked;
			observer?.onFailure(overloaded ? 'busy' : failureReason(error));
			throw overloaded ? new DatabaseBusyError() : new DatabaseError(error);
		} finally {
			underWay--;
			const now = performance.now();
			observer?.onStatement((turn.begun ?? now) - asked, now - asked);
		}
	}

	return {
		query: (statement) => run((turn) => read(turn, statement)),
		write: (statement, { until, retryRefused = true } = {}) =>
			run((turn) => write(turn, statement, retryRefused), until),
		listenForChanges: (channel, onChange) =>
			listenForChanges({
				url: options.url,
				applicationName: options.applicationName,
				channel,
				onChange,
				onReturn() {
					lanes.replaceAll();
					batches.renew();
				},
			}),
		readInBatches: (...reading) =>
			batches.read(...reading).catch((error: unknown) => {
				observer?.onFailure(failureReason(error));
				throw error;
			}),
		get waiting() {
			return underWay;
		},
		connections: lanes,
		get reading() {
			return batches.reading;
		},
		observe(next) {
			observer = next;
		},
		async close() {
			await Promise.all([lanes.close(), batches.close()]);
		},
	};
}
