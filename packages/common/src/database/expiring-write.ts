import { setTimeout as delay } from 'node:timers/promises';
import { timedOut, withDeadline } from '../process/with-deadline.js';
import type { Turn } from './admission.js';
import type { PendingStatement, Sql } from './client.js';
import { DeadlineError, judge } from './errors.js';
import type { Connection, ConnectionPool } from './pool.js';

/** What a statement that writes must carry, in milliseconds since the epoch by the database's clock. */
export interface Expiry {
	/** A lower bound of the time at which it is sent. */
	sent: number;
	/** An upper bound of that time: what was written later is newer, and must not be overwritten. */
	sentAtMost: number;
	/** From then on it must not write any more: it has to look at `clock_timestamp()` where it holds the lock of the row. */
	expires: number;
}

/** Rows that say what the server's clock was while they were made, in milliseconds since the epoch. */
export type ClockedRows = readonly { clock: number }[];

export type WriteStatement<Rows> = (sql: Sql, expiry: Expiry) => PendingStatement<Rows>;

/** A statement may write for so long: long for a commit, and short enough to be sent twice within the deadline of a caller. */
const maxWriteWindowMs = 1500;

/** For less time it is not sent: a response over a slow network takes as long. */
const minWriteWindowMs = 200;

/** By which the clocks of the servers of a cluster may differ, or the server's clock may be set back. */
export const clockMarginMs = 250;

/** For the response that tells the server's time, the making of the connection (2 seconds at most) included. */
const clockTimeoutMs = 2250;

/** Before a refused statement is sent again; each wait is twice as long as the one before, up to the second. */
const minRetryMs = 20;
const maxRetryMs = 250;

type SendWrite = <Rows extends ClockedRows>(
	turn: Turn,
	statement: WriteStatement<Rows>,
	retryRefused: boolean,
) => Promise<Rows>;

/** A failed attempt may still write until then, in milliseconds of `performance.now()`. */
type Attempt<Rows> = { rows: Rows } | { error: unknown; openUntil: number };

/**
 * Sends statements that write, each with an expiry. The network may hold one up and deliver it later, even when its connection
 * was closed or this process is gone; the server then finds it expired. So it is sent again, and its failure is reported, only
 * when its expiry has passed by the server's clock, or when the server itself has refused it. Nobody can be told of a
 * failure, write a newer value through another process, and have it overwritten. A caller that is told nothing, because this
 * process was killed, may write a newer value before the expiry: the held-up statement finds a row that was written after it
 * was sent, and leaves it.
 *
 * It relies on the server's clock running on, and on it not being set back by more than `clockMarginMs`.
 */
export function createWriteSender(pool: ConnectionPool): SendWrite {
	/** Without a recent sample, asks the server for its time; that makes the connection, too. */
	async function readClock(connection: Connection, turn: Turn): Promise<void> {
		const { sql, clock } = connection.client;
		if (clock.bounds(performance.now()) !== undefined) return;
		const timeoutMs = Math.min(clockTimeoutMs, turn.until - performance.now());
		await respond(
			connection,
			sql<{ clock: number }[]>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as clock`,
			timeoutMs,
		);
	}

	/** Ends a connection that does not respond in time. */
	async function respond<Rows extends ClockedRows>(
		connection: Connection,
		response: Promise<Rows>,
		timeoutMs: number,
	): Promise<Rows> {
		const { clock } = connection.client;
		const sentAt = performance.now();
		const rows = await withDeadline(response, timeoutMs);
		if (rows === timedOut) {
			connection.replace();
			throw new DeadlineError(timeoutMs, true);
		}
		const received = performance.now();
		for (const row of rows) clock.addSample(row.clock, sentAt, received);
		return rows;
	}

	async function attempt<Rows extends ClockedRows>(
		connection: Connection,
		turn: Turn,
		statement: WriteStatement<Rows>,
	): Promise<Attempt<Rows>> {
		let openUntil = Number.NEGATIVE_INFINITY;
		try {
			await readClock(connection, turn);
			const { sql, clock } = connection.client;
			const now = performance.now();
			const windowMs = Math.min(maxWriteWindowMs, turn.until - clockMarginMs - now);
			const bounds = clock.bounds(now);
			if (bounds === undefined || windowMs < minWriteWindowMs) throw new DeadlineError(turn.until - turn.askedAt, true);
			openUntil = now + windowMs + clockMarginMs;
			const { atLeast: sent, atMost: sentAtMost } = bounds;
			const query = statement(sql, { sent, sentAtMost, expires: sent + windowMs });
			return { rows: await respond(connection, query, windowMs + clockMarginMs) };
		} catch (error) {
			const { readOnly, unwritten } = judge(error);
			if (readOnly) pool.replaceAll(connection);
			return { error, openUntil: unwritten ? Number.NEGATIVE_INFINITY : openUntil };
		}
	}

	return async (turn, statement, retryRefused) => {
		for (let retryMs = minRetryMs; ; retryMs = Math.min(maxRetryMs, retryMs * 2)) {
			const connection = await pool.acquire(turn, minWriteWindowMs + clockMarginMs);
			const result = await attempt(connection, turn, statement).finally(() => pool.release(connection));
			if ('rows' in result) return result.rows;
			const { error, openUntil } = result;
			const { lost, readOnly, temporary } = judge(error);
			const again = lost || readOnly || error instanceof DeadlineError || (temporary && retryRefused);
			const waitMs = Math.max(openUntil - performance.now(), again ? retryMs : 0);
			if (waitMs > 0) await delay(Math.ceil(waitMs));
			if (!again || turn.until - performance.now() < minWriteWindowMs + clockMarginMs) throw error;
		}
	};
}
