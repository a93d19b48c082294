import { setTimeout as delay } from 'node:timers/promises';
import type { PendingStatement, Sql } from './client.js';
import { type Deadline, remainingMs } from './deadline.js';
import { classify, DeadlineError, NoOutcomeError, StoodStillError } from './errors.js';
import type { Expiry } from './expiry.sql.js';
import type { Connection, ConnectionPool } from './pool.js';
import { PauseDetector } from './server-clock.js';

/** What a statement has done, row by row. */
export type WrittenRows = readonly {
	/** The time of the server's clock while the row was made, in milliseconds since the epoch. */
	clock: number;
	/** Null: nothing was done, because the statement had expired, or the stored row may be newer. */
	outcome: 'saved' | 'skipped' | null;
}[];

export type WriteStatement<Rows> = (sql: Sql, expiry: Expiry) => PendingStatement<Rows>;

/** How long a statement may write. This is long for a commit, and short enough to send it twice within a caller's deadline. */
const maxWriteWindowMs = 1500;

/** A statement with less time left is not sent: a response over a slow network takes as long. */
const minWriteWindowMs = 200;

/** How far the clocks of a cluster's servers may differ, and how far the server's clock may be set back. */
const clockMarginMs = 250;

/** A write with less time left is not sent. */
export const minWriteMs = minWriteWindowMs + clockMarginMs;

/** How long to wait for the server's time, including up to 2 seconds for the connection. */
const clockTimeoutMs = 2250;

/** The first and the longest wait before a refused statement is sent again. Each wait is twice as long as the one before. */
const minRetryMs = 20;
const maxRetryMs = 1000;

type SendWrite = <Rows extends WrittenRows>(
	deadline: Deadline,
	statement: WriteStatement<Rows>,
	repeatsUndone: boolean,
) => Promise<Rows>;

/** Until when a failed attempt may still write, in milliseconds of `performance.now()`. */
type Attempt<Rows> = { rows: Rows } | { error: unknown; openUntil: number };

/**
 * Sends writes, each with an expiry. The network may delay a write and deliver it later, even after its connection was
 * closed or this process has ended. The server then rejects it as expired. So a write is sent again, or reported as failed,
 * only in two cases: its expiry has passed by the server's clock, or the server itself has refused it. A caller that sees a
 * failure can therefore write a newer value through another process, and the old write never overwrites it. A caller that
 * sees no response, because this process was killed, may write a newer value before the expiry. The delayed write then
 * finds a row that was written after it was sent, and does nothing. A write that finds a row from the moment before it was
 * sent can't tell which is newer: it does nothing either, and is sent again.
 *
 * The server's clock must keep running, and must not be set back by more than `clockMarginMs`. If the machine of this process is
 * paused, its monotonic clock stands still, and only the server's clock shows it. Then its callers may have given up long ago, so
 * every write that began before is refused.
 */
export function createWriteSender(pool: ConnectionPool): SendWrite {
	const pauses = new PauseDetector();
	/** When this machine was last found to have been paused, in milliseconds of `performance.now()`. */
	let stoodStillAt = Number.NEGATIVE_INFINITY;

	/** Asks the server for its time if there is no recent sample. This also opens the connection. */
	async function readClock(connection: Connection, deadline: Deadline): Promise<void> {
		const { sql, clock } = connection.client;
		if (clock.atLeast(performance.now()) !== undefined) return;
		const timeoutMs = Math.min(clockTimeoutMs, remainingMs(deadline));
		await respond(
			connection,
			sql<{ clock: number }[]>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as clock`,
			timeoutMs,
		);
	}

	async function respond<Rows extends readonly { clock: number }[]>(
		connection: Connection,
		response: Promise<Rows>,
		timeoutMs: number,
	): Promise<Rows> {
		const { clock } = connection.client;
		const sent = performance.now();
		const rows = await connection.respond(response, timeoutMs);
		const received = performance.now();
		for (const row of rows) {
			clock.addSample(row.clock, received);
			if (pauses.addSample(row.clock, sent, received)) stoodStillAt = received;
		}
		return rows;
	}

	/** Sends the statement, and once more if it has done nothing: the response says how late it is by the server's clock. */
	async function attempt<Rows extends WrittenRows>(
		connection: Connection,
		deadline: Deadline,
		statement: WriteStatement<Rows>,
		repeatsUndone: boolean,
	): Promise<Attempt<Rows>> {
		let openUntil = Number.NEGATIVE_INFINITY;
		try {
			connection.refresh();
			await readClock(connection, deadline);
			const { sql, clock } = connection.client;
			for (let isSecond = false; ; isSecond = true) {
				if (deadline.startedAt <= stoodStillAt) throw new StoodStillError();
				const now = performance.now();
				const windowMs = Math.min(maxWriteWindowMs, deadline.expiresAt - clockMarginMs - now);
				const sentAtLeast = clock.atLeast(now);
				if (sentAtLeast === undefined || windowMs < minWriteWindowMs)
					throw new DeadlineError(deadline.expiresAt - deadline.startedAt, true);
				const expires = sentAtLeast + windowMs;
				openUntil = now + windowMs + clockMarginMs;
				const rows = await respond(connection, statement(sql, { sentAtLeast, expires }), windowMs + clockMarginMs);
				openUntil = Number.NEGATIVE_INFINITY;
				if (!repeatsUndone || rows.every(({ outcome }) => outcome !== null)) return { rows };
				if (isSecond) throw new NoOutcomeError();
			}
		} catch (error) {
			const { kind, isUnwritten } = classify(error);
			if (kind === 'read-only') pool.onReadOnly();
			return { error, openUntil: isUnwritten ? Number.NEGATIVE_INFINITY : openUntil };
		}
	}

	return async (deadline, statement, repeatsUndone) => {
		let failure: unknown;
		for (let retryMs = minRetryMs; ; retryMs = Math.min(maxRetryMs, retryMs * 2)) {
			// While the statement waits to be sent again, its connection is free for others.
			const result = await pool
				.run(deadline, (connection) => attempt(connection, deadline, statement, repeatsUndone), {
					neededMs: minWriteMs,
					isRepeated: failure !== undefined,
				})
				.catch((error: unknown) => {
					throw failure ?? error;
				});
			if ('rows' in result) return result.rows;
			const { error, openUntil } = result;
			// What an earlier attempt has done is not known.
			if (error instanceof StoodStillError) throw failure ?? error;
			failure = error;
			const { isSentAgain, isRefused } = classify(error);
			const again = isSentAgain && (repeatsUndone || !isRefused);
			const waitMs = Math.max(openUntil - performance.now(), again ? retryMs : 0);
			if (waitMs > 0) await delay(Math.ceil(waitMs));
			if (!again || remainingMs(deadline) < minWriteMs) throw error;
		}
	};
}
