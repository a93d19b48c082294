import { backendOf } from './backends.js';
import { type BatchReader, createBatchReader } from './batches.js';
import { type ChangeListener, listenForChanges } from './change-listener.js';
import { type ClientOptions, createClient, type PendingStatement, type Sql } from './client.js';
import { ConnectionTurns, type ConnectionUse } from './connection-use.js';
import {
	DatabaseBusyError,
	DatabaseError,
	DeadlineError,
	type FailureReason,
	failureReason,
	isLostConnection,
} from './errors.js';
import { openPool, type Sent, suspicious } from './pool.js';

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
	 * Runs one idempotent statement: it is sent a second time when its connection was lost, and given up when the deadline
	 * has passed.
	 *
	 * @throws DatabaseError whatever went wrong, within the deadline.
	 * @throws DatabaseBusyError at once, when too many callers wait already, or when the deadline has passed before it was its
	 *   turn, while others were answered.
	 */
	query<Rows>(statement: (sql: Sql) => PendingStatement<Rows>): Promise<Rows>;
	/**
	 * Listens on a channel for as long as the database is open. `onListen` is called each time listening begins, also after
	 * a reconnection: whatever was notified in between is lost, so everything has to be read again.
	 */
	listen(channel: string, onNotify: () => void, onListen: () => void): Promise<void>;
	/** Listens for changes that PostgreSQL tells of, on a connection that knows when it is deaf. */
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
	const pool = openPool(options);
	const batches = createBatchReader({ ...options, poolSize: maxReaders, deadline });
	const listeners: Sql[] = [];
	const turns = new ConnectionTurns(options.poolSize);
	let observer: DatabaseObserver | undefined;
	/** When a statement was answered last. */
	let answeredAt = Number.NEGATIVE_INFINITY;

	async function attempt<Rows>(statement: (sql: Sql) => PendingStatement<Rows>, until: number): Promise<Rows> {
		let sent: Sent<Rows> | undefined;
		let late = false;
		let timer: NodeJS.Timeout | undefined;
		const expired = new Promise<never>((_, reject) => {
			const expire = () => {
				late = true;
				const hadTurn = sent !== undefined && backendOf(sent.answer) !== undefined;
				sent?.giveUp();
				reject(new DeadlineError(deadline, hadTurn));
			};
			const left = () => until - performance.now();
			if (left() <= suspicious) timer = setTimeout(expire, left());
			else {
				timer = setTimeout(() => {
					pool.suspect();
					timer = setTimeout(expire, left());
				}, suspicious);
			}
		});
		async function run(): Promise<Rows> {
			sent = await pool.send(statement, () => late);
			// When it is late, nobody waits for this any more.
			return sent === undefined ? expired : sent.answer;
		}
		try {
			return await Promise.race([run(), expired]);
		} finally {
			clearTimeout(timer);
		}
	}

	return {
		async query(statement) {
			if (turns.inUse + turns.waiting >= maxWaiting) {
				observer?.onFailure('busy');
				throw new DatabaseBusyError();
			}
			const asked = performance.now();
			const turn = turns.begin(asked);
			const until = asked + deadline;
			try {
				const rows = await attempt(statement, until).catch((error: unknown) => {
					if (isLostConnection(error)) return attempt(statement, until);
					throw error;
				});
				answeredAt = performance.now();
				return rows;
			} catch (error) {
				// The database works, but for others.
				const overloaded = error instanceof DeadlineError && !error.hadTurn && answeredAt > asked;
				observer?.onFailure(overloaded ? 'busy' : failureReason(error));
				if (overloaded) throw new DatabaseBusyError();
				throw new DatabaseError(error);
			} finally {
				const now = performance.now();
				turns.end(turn, now);
				observer?.onStatement((turn.begun ?? now) - asked, now - asked);
			}
		},
		async listen(channel, onNotify, onListen) {
			const listener = createClient({ ...options, poolSize: 1 });
			listeners.push(listener);
			await listener.listen(channel, onNotify, onListen);
		},
		listenForChanges: (channel, onChange) =>
			listenForChanges({ url: options.url, applicationName: options.applicationName, channel, onChange }),
		readInBatches: (...reading) =>
			batches.read(...reading).catch((error: unknown) => {
				observer?.onFailure(failureReason(error));
				throw error;
			}),
		get waiting() {
			return turns.inUse + turns.waiting;
		},
		connections: turns,
		get reading() {
			return batches.reading;
		},
		observe(next) {
			observer = next;
		},
		async close() {
			await Promise.all([pool.close(), batches.close(), ...listeners.map((client) => client.end({ timeout: 5 }))]);
		},
	};
}
