import type postgres from 'postgres';
import type { ClientOptions, Sql } from './client.js';
import { DatabaseBusyError, DatabaseError, DeadlineError, isLostConnection } from './errors.js';
import { type Lane, Lanes } from './lanes.js';

/** A row as PostgreSQL sends it: the bytes of each column in its text form. */
export type RawRow = Buffer[];

export interface BatchReader {
	/** See `Database.readInBatches`. */
	read(
		statement: (sql: Sql) => postgres.PendingQuery<postgres.Row[]>,
		rowsPerBatch: number,
		onBatch: (rows: RawRow[]) => Promise<boolean>,
	): Promise<void>;
	/** How many read at this moment. */
	readonly reading: number;
	close(): Promise<void>;
}

export interface BatchReaderOptions extends ClientOptions {
	/** Milliseconds within which a batch must have come. */
	deadline: number;
}

/**
 * Reads long results by a cursor. Its connections are apart from those of short statements, which must not wait for a
 * reader who takes his time; `poolSize` is how many may read at once.
 */
export function createBatchReader(options: BatchReaderOptions): BatchReader {
	// The server's time limit would count the reader's pauses too; the deadline of each batch takes its place.
	const settings = { ...options, statementTimeout: 0 };
	const lanes = new Lanes(settings);
	let reading = 0;

	async function attempt(
		lane: Lane,
		...[statement, rowsPerBatch, onBatch]: Parameters<BatchReader['read']>
	): Promise<void> {
		const { sql } = lane.client;
		const query = statement(sql);
		let over = false;
		let batch = Promise.resolve(true);
		let timer: NodeJS.Timeout | undefined;
		let expire: (error: Error) => void;
		const expired = new Promise<never>((_, reject) => {
			expire = reject;
		});
		const awaitBatch = () => {
			timer = setTimeout(() => {
				expire(new DeadlineError(options.deadline, true));
				lane.replace();
			}, options.deadline);
		};
		awaitBatch();
		try {
			const read = query.raw().cursor(rowsPerBatch, async (rows) => {
				clearTimeout(timer);
				batch = onBatch(rows);
				const goOn = await batch;
				// The connection is gone, and another statement may be on its successor: this one must say nothing there.
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
		async read(statement, rowsPerBatch, onBatch) {
			if (reading >= options.poolSize) throw new DatabaseBusyError();
			reading++;
			let begun = false;
			const take = (rows: RawRow[]) => {
				begun = true;
				return onBatch(rows);
			};
			// As many lanes as may read: none waits.
			const lane = (await lanes.acquire(Number.POSITIVE_INFINITY)) as Lane;
			try {
				await attempt(lane, statement, rowsPerBatch, take).catch((error: unknown) => {
					if (!begun && isLostConnection(error)) return attempt(lane, statement, rowsPerBatch, take);
					throw error;
				});
			} catch (error) {
				throw new DatabaseError(error);
			} finally {
				lanes.release(lane);
				reading--;
			}
		},
		get reading() {
			return reading;
		},
		async close() {
			await lanes.close();
		},
	};
}
