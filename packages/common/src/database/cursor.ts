import type postgres from 'postgres';
import type { Sql } from './client.js';
import { type Deadline, remainingMs } from './deadline.js';
import { classify, DatabaseBusyError, DatabaseError, DeadlineError } from './errors.js';
import { type Connection, ConnectionPool, type PoolOptions } from './pool.js';

/** A row as PostgreSQL sends it: the bytes of each column in its text form. */
type RawRow = Buffer[];

/** Maximum number of cursors that are open at once. */
const maxReaders = 4;

interface ReadOptions {
	/** Who reads, such as a project. Each reader has one cursor at a time. */
	reader: string;
	/** The deadline of the first batch. */
	deadline: Deadline;
	/** See `Database.query`. */
	isOnNew: boolean;
}

type Statement = (sql: Sql) => postgres.PendingQuery<postgres.Row[]>;

/** Resolves to whether to continue, and must not reject. The cursor keeps its connection until then. */
type BatchHandler = (rows: RawRow[]) => Promise<boolean>;

export interface CursorReader {
	/** See `Database.readInBatches`. */
	read(statement: Statement, rowsPerBatch: number, onBatch: BatchHandler, options: ReadOptions): Promise<void>;
	/** The number of results that are being read. */
	readonly reading: number;
	/** Uses new connections from now on. Open cursors are read to their end. */
	renew(): void;
	close(): Promise<void>;
}

/**
 * Reads long results with a cursor. It has a separate connection pool, because short statements must not wait for a slow
 * client.
 *
 * @param deadlineMs the deadline of each batch
 */
export function createCursorReader(options: PoolOptions, deadlineMs: number): CursorReader {
	// The server's time limit would include the pauses of a slow client. The deadline of each batch replaces it.
	const pool = new ConnectionPool({ ...options, poolSize: maxReaders, statementTimeoutMs: 0 });
	/** Who is reading. */
	const readers = new Set<string>();

	async function attempt(
		connection: Connection,
		first: Deadline,
		statement: Statement,
		rowsPerBatch: number,
		onBatch: BatchHandler,
	): Promise<void> {
		connection.refresh();
		const { sql } = connection.client;
		let over = false;
		let batch = Promise.resolve(true);
		let timer: NodeJS.Timeout | undefined;
		let expire: (error: Error) => void;
		const expired = new Promise<never>((_, reject) => {
			expire = reject;
		});
		const awaitBatch = (timeoutMs: number) => {
			timer = setTimeout(() => {
				expire(new DeadlineError(timeoutMs, true));
				connection.replace();
			}, Math.ceil(timeoutMs));
		};
		awaitBatch(remainingMs(first));
		try {
			const read = statement(sql)
				.raw()
				.cursor(rowsPerBatch, async (rows) => {
					clearTimeout(timer);
					batch = onBatch(rows);
					const goOn = await batch;
					// The connection is closed, and its replacement may run another statement. Send nothing over it.
					if (over) return new Promise<never>(() => undefined);
					awaitBatch(deadlineMs);
					return goOn ? undefined : sql.CLOSE;
				});
			await Promise.race([read, expired]);
			// The client does not wait for the last one.
			await batch;
		} finally {
			over = true;
			clearTimeout(timer);
		}
	}

	return {
		async read(statement, rowsPerBatch, onBatch, { reader, deadline, isOnNew }) {
			if (readers.size >= maxReaders || readers.has(reader)) throw new DatabaseBusyError();
			readers.add(reader);
			let isStarted = false;
			const onRows: BatchHandler = (rows) => {
				isStarted = true;
				return onBatch(rows);
			};
			try {
				// There is a connection for each reader, so none waits.
				await pool.run(deadline, async (connection) => {
					if (isOnNew) connection.outdate();
					const send = () => attempt(connection, deadline, statement, rowsPerBatch, onRows);
					await send().catch((error: unknown) => {
						if (isStarted || classify(error).kind !== 'lost') throw error;
						return send();
					});
				});
			} catch (error) {
				throw new DatabaseError(error);
			} finally {
				readers.delete(reader);
			}
		},
		get reading() {
			return readers.size;
		},
		renew: () => pool.renew(),
		close: () => pool.close(),
	};
}
