import { Admission, type Turn } from './admission.js';
import { type ChangeSubscription, createChangeListener } from './change-listener.js';
import type { ClientOptions, PendingStatement, Sql } from './client.js';
import { type CursorReader, createCursorReader } from './cursor.js';
import { DatabaseError, type FailureReason, failureReason } from './errors.js';
import { type ClockedRows, createWriteSender, type WriteStatement } from './expiring-write.js';
import { createQuerySender } from './hedged-query.js';
import { ConnectionPool } from './pool.js';

/** Receives every statement. It must be quick and not throw. */
interface DatabaseObserver {
	/**
	 * A statement is over, successful or not.
	 *
	 * @param waitedMs until it got a connection
	 * @param tookMs until its response, the wait included
	 */
	onStatement(waitedMs: number, tookMs: number): void;
	/** A caller was refused, or what it asked for has failed. */
	onFailure(reason: FailureReason): void;
}

interface WriteOptions {
	/** The turn of a caller that was admitted before; without it, this call is admitted as a caller. */
	turn?: Turn;
	/** Whether to send it again when the server refused it for a reason that may pass, such as a lock; default: true. */
	retryRefused?: boolean;
}

/** What requests see of the database. */
export interface Database {
	/**
	 * Runs one idempotent statement that may be executed at any later time: it is sent a second time when its connection was
	 * lost or does not respond, and its connection is ended when the deadline has passed.
	 *
	 * @throws DatabaseError, DatabaseBusyError: see `Admission`
	 */
	query<Rows>(statement: (sql: Sql) => PendingStatement<Rows>): Promise<Rows>;
	/** The same on a reserved connection, where it waits for no request: for what every request depends on. */
	queryReserved<Rows>(statement: (sql: Sql) => PendingStatement<Rows>): Promise<Rows>;
	/**
	 * Runs one idempotent statement that must not be executed after a newer one: it carries an expiry, and is sent again
	 * when it can't be executed any more and there is time.
	 *
	 * @returns its rows, also those that say that it has expired
	 * @throws DatabaseError, DatabaseBusyError: see `Admission`. With a turn: the error itself, for `admit` to judge. In both
	 *   cases it has not been executed and never will be.
	 */
	write<Rows extends ClockedRows>(statement: WriteStatement<Rows>, options?: WriteOptions): Promise<Rows>;
	/** Admits a caller whose statements are shared with others, or refuses it. */
	admit<Result>(work: (turn: Turn) => Promise<Result>): Promise<Result>;
	/** Whether a new request would wait for too long. */
	readonly isFull: boolean;
	/**
	 * Listens for changes that PostgreSQL notifies of, on one connection for all channels. When it listens again after it was
	 * disconnected, statements and cursors go over new connections from then on.
	 */
	listenForChanges(channel: string, onChange: () => void): ChangeSubscription;
	/**
	 * Reads a long result in batches, by a cursor, so all of it is of the one moment at which the statement began. Each batch
	 * is asked for when the one before has been processed.
	 *
	 * @param onBatch resolves whether to go on, and must not reject; until it does, a connection is kept for this cursor
	 * @throws DatabaseError when it fails or a batch does not come within the deadline; what came before is not all
	 * @throws DatabaseBusyError at once, when as many as may read already
	 */
	readInBatches: CursorReader['read'];
	/** Callers that wait for a response. */
	readonly waiting: number;
	/** Connections of statements; those of cursors and of listening are apart. */
	readonly connections: Pick<ConnectionPool, 'limit' | 'inUse' | 'waiting'>;
	/** Open cursors. */
	readonly reading: number;
	/** Has everything reported to this observer from now on; there is one alone. */
	observe(observer: DatabaseObserver): void;
	/** Ends all connections after the statements under way, within 5 seconds. */
	close(): Promise<void>;
}

export interface DatabaseOptions extends ClientOptions {
	/** The longest that a caller waits for a response, in milliseconds. Callers of the services get one within 5 seconds. */
	deadline?: number;
	/** The most callers that wait at once. */
	maxWaiting?: number;
	/** The most cursors that are open at once. */
	maxReaders?: number;
	/** Milliseconds that never go back; default: the process's own. */
	clock?: (() => number) | undefined;
}

/** Opens the database for a service; nothing is connected before the first statement. */
export function openDatabase(options: DatabaseOptions): Database {
	const { deadline: deadlineMs = 4000, maxWaiting = 1000, maxReaders = 8, clock = () => performance.now() } = options;
	let observer: DatabaseObserver | undefined;
	const onFailure = (reason: FailureReason) => observer?.onFailure(reason);
	const admission = new Admission({ deadlineMs, maxWaiting, clock, onFailure });
	const pool = new ConnectionPool(options);
	const reserved = new ConnectionPool({ ...options, poolSize: 1 });
	const sendQuery = createQuerySender(pool);
	const sendReserved = createQuerySender(reserved);
	const sendWrite = createWriteSender(pool);
	const cursors = createCursorReader({ ...options, poolSize: maxReaders }, deadlineMs);
	const listener = createChangeListener({
		url: options.url,
		applicationName: options.applicationName,
		onReturn() {
			pool.replaceAll();
			reserved.replaceAll();
			cursors.renew();
		},
	});

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
		query: (statement) => admission.run((turn) => timed(turn, (own) => sendQuery(own, statement))),
		async queryReserved(statement) {
			const askedAt = performance.now();
			return sendReserved({ askedAt, until: askedAt + deadlineMs }, statement).catch((error: unknown) => {
				onFailure(failureReason(error));
				throw new DatabaseError(error);
			});
		},
		write(statement, { turn, retryRefused = true } = {}) {
			const send = (admitted: Turn) => timed(admitted, (own) => sendWrite(own, statement, retryRefused));
			return turn === undefined ? admission.run(send) : send(turn);
		},
		admit: (work) => admission.run(work),
		get isFull() {
			return admission.isFull;
		},
		listenForChanges: (channel, onChange) => listener.subscribe(channel, onChange),
		readInBatches: (...reading) =>
			cursors.read(...reading).catch((error: unknown) => {
				onFailure(failureReason(error));
				throw error;
			}),
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
			await Promise.all([listener.close(), pool.close(), reserved.close(), cursors.close()]);
		},
	};
}
