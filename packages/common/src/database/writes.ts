import { setTimeout as delay } from 'node:timers/promises';
import { timedOut, withDeadline } from '../process/with-deadline.js';
import type { PendingStatement, Sql } from './client.js';
import { DeadlineError, judge } from './errors.js';
import type { Lane, Lanes } from './lanes.js';
import { type Turn, takeTurn } from './turn.js';

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

export interface WriteOptions {
	/** When the caller needs an answer at the latest, in milliseconds of `performance.now()`; default: the database's deadline. */
	until?: number;
	/** Whether to send it again when the server refused it for a reason that may pass, such as a lock; default: true. */
	retryRefused?: boolean;
}

/** Milliseconds for which a statement may write: long for a commit, and short enough to be sent twice within 4 seconds. */
const writeWindow = 1500;

/** Milliseconds: for less it is not sent. */
const minWriteWindow = 200;

/** Milliseconds by which the clocks of the servers of a cluster may differ, or the server's clock may be set back. */
export const clockMargin = 250;

/** Milliseconds for the response that tells the server's time, the making of the connection included. */
const clockTimeout = 2250;

/** Milliseconds before a refused statement is sent again: at first, and at the most. */
const retryDelay = { first: 20, max: 250 };

export type Write = <Rows extends ClockedRows>(
	turn: Turn,
	statement: WriteStatement<Rows>,
	retryRefused: boolean,
) => Promise<Rows>;

/** A failed one may still write until then, in milliseconds of `performance.now()`. */
type Attempt<Rows> = { rows: Rows } | { error: unknown; openUntil: number };

/**
 * Sends statements that write, each with an expiry. The network may hold one up and deliver it later, even when its connection
 * was closed or this process is gone; the server then finds it expired. So it is sent again, and its failure is reported, only
 * when its expiry has passed by the server's clock, or when the server itself has refused it. Nobody can be told of a
 * failure, write a newer value through another process, and have it overwritten. A caller that is told nothing, because this
 * process was killed, may write a newer value before the expiry: the held-up statement finds a row that was written after it
 * was sent, and leaves it.
 *
 * It relies on the server's clock running on, and on it not being set back by more than `clockMargin`.
 */
export function createWriter(lanes: Lanes): Write {
	/** Without a recent sample, asks the server for its time; that makes the connection, too. */
	async function readClock(lane: Lane, turn: Turn): Promise<void> {
		const { sql, clock } = lane.client;
		if (clock.bounds(performance.now()) !== undefined) return;
		const timeout = Math.min(clockTimeout, turn.until - performance.now());
		await respond(
			lane,
			sql<{ clock: number }[]>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as clock`,
			timeout,
		);
	}

	/** Ends a connection that does not respond in time. */
	async function respond<Rows extends ClockedRows>(
		lane: Lane,
		response: Promise<Rows>,
		timeout: number,
	): Promise<Rows> {
		const { clock } = lane.client;
		const sentAt = performance.now();
		const rows = await withDeadline(response, timeout);
		if (rows === timedOut) {
			lane.replace();
			throw new DeadlineError(timeout, true);
		}
		const received = performance.now();
		for (const row of rows) clock.addSample(row.clock, sentAt, received);
		return rows;
	}

	async function attempt<Rows extends ClockedRows>(
		lane: Lane,
		turn: Turn,
		statement: WriteStatement<Rows>,
	): Promise<Attempt<Rows>> {
		let openUntil = Number.NEGATIVE_INFINITY;
		try {
			await readClock(lane, turn);
			const { sql, clock } = lane.client;
			const now = performance.now();
			const window = Math.min(writeWindow, turn.until - clockMargin - now);
			const bounds = clock.bounds(now);
			if (bounds === undefined || window < minWriteWindow) throw new DeadlineError(turn.until - turn.asked, true);
			openUntil = now + window + clockMargin;
			const { atLeast: sent, atMost: sentAtMost } = bounds;
			const query = statement(sql, { sent, sentAtMost, expires: sent + window });
			return { rows: await respond(lane, query, window + clockMargin) };
		} catch (error) {
			const { readOnly, unwritten } = judge(error);
			if (readOnly) lanes.replaceAll(lane);
			return { error, openUntil: unwritten ? Number.NEGATIVE_INFINITY : openUntil };
		}
	}

	return async (turn, statement, retryRefused) => {
		for (let pause = retryDelay.first; ; pause = Math.min(retryDelay.max, pause * 2)) {
			const lane = await takeTurn(lanes, turn, minWriteWindow + clockMargin);
			const result = await attempt(lane, turn, statement).finally(() => lanes.release(lane));
			if ('rows' in result) return result.rows;
			const { error, openUntil } = result;
			const { lost, readOnly, temporary } = judge(error);
			const again = lost || readOnly || error instanceof DeadlineError || (temporary && retryRefused);
			const wait = Math.max(openUntil - performance.now(), again ? pause : 0);
			if (wait > 0) await delay(Math.ceil(wait));
			if (!again || turn.until - performance.now() < minWriteWindow + clockMargin) throw error;
		}
	};
}
