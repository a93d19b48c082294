import { timedOut, withDeadline } from '../process/with-deadline.js';
import type { PendingStatement, Sql } from './client.js';
import { DeadlineError, judge } from './errors.js';
import { endClient, type Lane, type Lanes, openClient } from './lanes.js';
import { type Turn, takeTurn } from './turn.js';

/** Milliseconds after which a statement without a response is tried over another connection. */
const suspiciousAfter = 1000;

/** Milliseconds until a statement that can't be tried so yet asks again. */
const retryInterval = 100;

export type Read = <Rows>(turn: Turn, statement: (sql: Sql) => PendingStatement<Rows>) => Promise<Rows>;

/**
 * Sends statements that may be executed twice. One whose connection was lost is sent once more. One that has no response after
 * a second is tried over another connection as well: the first response counts. When that is the other one's, the connection
 * has become unresponsive and is ended. When not, the statement is merely slow. Only one statement at a time is tried
 * so, because a database that is slow must not get twice the work.
 */
export function createReader(lanes: Lanes): Read {
	let comparing = false;

	/** @returns what comes first: the pending response, or that of another connection, which the lane keeps then */
	async function compare<Rows>(lane: Lane, pending: Promise<Rows>, statement: (sql: Sql) => PendingStatement<Rows>) {
		comparing = true;
		const suspected = lane.client;
		const other = openClient(lanes.options);
		try {
			const copy: Promise<Rows> = statement(other.sql);
			const keptWaiting = pending.then(
				() => true,
				() => true,
			);
			// A copy that fails says nothing.
			const isSlow = await Promise.race([keptWaiting, copy.then(() => false).catch(() => keptWaiting)]);
			if (isSlow) {
				endClient(other);
				return await pending;
			}
			// At the deadline the lane has another connection already.
			if (lane.client === suspected) lane.replace(other);
			else endClient(other);
			return await copy;
		} finally {
			comparing = false;
		}
	}

	async function send<Rows>(lane: Lane, turn: Turn, statement: (sql: Sql) => PendingStatement<Rows>): Promise<Rows> {
		const response: Promise<Rows> = statement(lane.client.sql);
		let awaited = response;
		for (let wait = suspiciousAfter; ; wait = retryInterval) {
			const rows = await withDeadline(awaited, Math.min(wait, turn.until - performance.now()));
			if (rows !== timedOut) return rows;
			if (performance.now() >= turn.until) {
				lane.replace();
				throw new DeadlineError(turn.until - turn.asked, true);
			}
			if (awaited === response && !comparing) awaited = compare(lane, response, statement);
		}
	}

	return async (turn, statement) => {
		const lane = await takeTurn(lanes, turn);
		try {
			return await send(lane, turn, statement).catch((error: unknown) => {
				const { lost, readOnly } = judge(error);
				if (readOnly) lanes.replaceAll(lane);
				if (!lost && !readOnly) throw error;
				return send(lane, turn, statement);
			});
		} finally {
			lanes.release(lane);
		}
	};
}
