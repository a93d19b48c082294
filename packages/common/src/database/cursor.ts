import type postgres from 'postgres';
import type { ClientOptions, Sql } from './client.js';
import { type Deadline, remainingMs } from './deadline.js';
import { classify, DatabaseBusyError, DatabaseError, type FailureReason } from './errors.js';
import { Connection } from './pool.js';

/** A row as PostgreSQL sends it: the bytes of each column in its text form. */
type RawRow = Buffer[];

/** Maximum number of cursors that are open at once. */
const maxReaders = 4;

interface ReadOptions {
	/** Who reads, such as a project. Each reader has one cursor at a time. */
	reader: string;
	/** The deadline of the first batch. */
	deadline: Deadline;
	/** See `Database.read`. */
	isOnNew: boolean;
}

type Statement = (sql: Sql) => postgres.PendingQuery<postgres.Row[]>;

interface CursorOptions extends ClientOptions {
	/** The deadline of each further batch, in milliseconds. */
	deadlineMs: number;
	onFailure: (reason: FailureReason) => void;
}

export interface CursorReader {
	/** See `Database.readInBatches`. */
	read(statement: Statement, rowsPerBatch: number, options: ReadOptions): AsyncGenerator<RawRow[], void>;
	/** The number of results that are being read. */
	readonly reading: number;
	/** Uses new connections from now on. Open cursors are read to their end. */
	renew(): void;
	close(): Promise<void>;
}

/** Reads long results with a cursor, over separate connections, because short statements must not wait for a slow client. */
export function createCursorReader(options: CursorOptions): CursorReader {
	const { deadlineMs, onFailure } = options;
	// The server's time limit would include the pauses of a slow client. The deadline of each batch replaces it.
	const connections = Array.from({ length: maxReaders }, () => new Connection({ ...options, statementTimeoutMs: 0 }));
	const idle = [...connections];
	/** Who is reading. */
	const readers = new Set<string>();

	/** Yields the batches of a cursor. When nobody reads them any more, it closes the cursor. */
	async function* attempt(
		connection: Connection,
		first: Deadline,
		statement: Statement,
		rowsPerBatch: number,
	): AsyncGenerator<RawRow[], void> {
		connection.refresh();
		const { sql } = connection.client;
		let isEnded = false;
		let receive: (rows: RawRow[] | undefined) => void = () => undefined;
		let fail: (error: unknown) => void = () => undefined;
		let proceed: (close?: typeof sql.CLOSE) => void = () => undefined;
		const ended = statement(sql)
			.raw()
			.cursor(rowsPerBatch, (rows) => {
				receive(rows);
				return new Promise<typeof sql.CLOSE | undefined>((resolve) => {
					proceed = resolve;
				});
			})
			.then(() => undefined)
			.finally(() => {
				isEnded = true;
			});
		ended.then(
			() => receive(undefined),
			(error) => fail(error),
		);
		// Not by a race with `ended`, which would keep every batch in memory.
		const nextBatch = (): Promise<RawRow[] | undefined> =>
			isEnded
				? ended
				: new Promise((resolve, reject) => {
						[receive, fail] = [resolve, reject];
					});
		try {
			for (let timeoutMs = remainingMs(first); ; timeoutMs = deadlineMs) {
				const batch = nextBatch();
				// The connection of a cursor that has ended may run another statement. Send nothing over it.
				if (!isEnded) proceed();
				const rows = await connection.respond(batch, timeoutMs);
				if (rows === undefined) return;
				yield rows;
			}
		} finally {
			if (!isEnded) {
				proceed(sql.CLOSE);
				await connection.respond(ended, deadlineMs).catch(() => undefined);
			}
		}
	}

	return {
		async *read(statement, rowsPerBatch, { reader, deadline, isOnNew }) {
			// There is a connection for each reader, so none waits.
			const connection = readers.has(reader) ? undefined : idle.pop();
			if (connection === undefined) {
				onFailure('busy');
				throw new DatabaseBusyError();
			}
			readers.add(reader);
			if (isOnNew) connection.outdate();
			const open = () => attempt(connection, deadline, statement, rowsPerBatch);
			let batches = open();
			try {
				const first = batches.next().catch((error: unknown) => {
					if (classify(error).kind !== 'lost') throw error;
					batches = open();
					return batches.next();
				});
				for (let next = await first; !next.done; next = await batches.next()) yield next.value;
			} catch (error) {
				onFailure(classify(error).reason);
				throw new DatabaseError(error);
			} finally {
				await batches.return();
				readers.delete(reader);
				idle.push(connection);
			}
		},
		get reading() {
			return readers.size;
		},
		renew() {
			for (const connection of connections) connection.outdate();
		},
		async close() {
			await Promise.all(connections.map((connection) => connection.close()));
		},
	};
}
