import type postgres from 'postgres';
import type { ClientOptions, Sql } from './client.js';
import { DatabaseBusyError, DatabaseError, DeadlineError, isLostConnection } from './errors.js';
import { type Connection, ConnectionPool } from './pool.js';

/** A row as PostgreSQL sends it: the bytes of each column in its text form. */
type RawRow = Buffer[];

interface ReadOptions {
	/** Who reads, such as a project. Each reader has one cursor at a time. Without a name, only the limit of all cursors applies. */
	reader?: string;
	/** See `Database.query`: the deadline of the first batch counts from then. */
	askedAt?: number;
	/** See `Database.query`. */
	isOnNew?: boolean;
}

export interface CursorReader {
	/** See `Database.readInBatches`. */
	read(
		statement: (sql: Sql) => postgres.PendingQuery<postgres.Row[]>,
		rowsPerBatch: number,
		onBatch: (rows: RawRow[]) => Promise<boolean>,
		options?: ReadOptions,
	): Promise<void>;
	/** The number of results that are being read. */
	readonly reading: number;
	/** Uses new connections from now on. Open cursors are read to their end. */
	renew(): void;
	close(): Promise<void>;
}

/**
 * Reads long results with a cursor. It has a separate connection pool, because short statements must not wait for a slow
 * client. `poolSize` is the maximum number of results that are read at once.
 *
 * @param deadlineMs the deadline of each batch, for the first one since the request began
 */
export function createCursorReader(options: ClientOptions, deadlineMs: number): CursorReader {
	// The server's time limit would include the pauses of a slow client. The deadline of each batch replaces it.
	const pool = new ConnectionPool({ ...options, statementTimeoutMs: 0 });
	/** Who is reading. */
	const readers = new Set<string | symbol>();

	async function attempt(
		connection: Connection,
		firstUntil: number,
		...[statement, rowsPerBatch, onBatch]: Parameters<CursorReader['read']>
	): Promise<void> {
		const { sql } = connection.client;
		const query = statement(sql);
		let over = false;
		let batch = Promise.resolve(true);
		let timer: NodeJS.Timeout | undefined;
		let expire: (error: Error) => void;
		const expired = new Promise<never>((_, reject) => {
			expire = reject;
		});
		const awaitBatch = (timeoutMs = deadlineMs) => {
			timer = setTimeout(() => {
				expire(new DeadlineError(deadlineMs, true));
				connection.replace();
			}, Math.ceil(timeoutMs));
		};
		awaitBatch(firstUntil - performance.now());
		try {
			const read = query.raw().cursor(rowsPerBatch, async (rows) => {
				clearTimeout(timer);
				batch = onBatch(rows);
				const goOn = await batch;
				// The connection is closed, and its replacement may run another statement. Send nothing over it.
				if (over) return new Promise<never>(() => undefined);
				awaitBatch();
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
		async read(statement, rowsPerBatch, onBatch, { reader, askedAt = performance.now(), isOnNew = false } = {}) {
			const own = reader ?? Symbol();
			if (readers.size >= options.poolSize || readers.has(own)) throw new DatabaseBusyError();
			readers.add(own);
			let started = false;
			const take = (rows: RawRow[]) => {
				started = true;
				return onBatch(rows);
			};
			// There is one connection for each cursor, so none waits.
			const connection = await pool.acquire({ askedAt, until: Number.POSITIVE_INFINITY });
			if (isOnNew) connection.replace();
			const send = () => attempt(connection, askedAt + deadlineMs, statement, rowsPerBatch, take);
			try {
				await send().catch((error: unknown) => {
					if (!started && isLostConnection(error)) return send();
					throw error;
				});
			} catch (error) {
				throw new DatabaseError(error);
			} finally {
				pool.release(connection);
				readers.delete(own);
			}
		},
		get reading() {
			return readers.size;
		},
		renew: () => pool.replaceAll(),
		close: () => pool.close(),
	};
}
