import { timedOut, withDeadline } from '../process/with-deadline.js';
import type { Turn } from './admission.js';
import type { PendingStatement, Sql } from './client.js';
import { DeadlineError, judge } from './errors.js';
import { type Connection, type ConnectionPool, endClient, openClient } from './pool.js';

/** A statement without a response after this time is also sent over another connection. Few statements take this long. */
const hedgeAfterMs = 1000;

/** The interval between two checks whether a statement may be hedged. */
const hedgeRetryMs = 100;

type SendQuery = <Rows>(turn: Turn, statement: (sql: Sql) => PendingStatement<Rows>) => Promise<Rows>;

/**
 * Sends statements that may be executed twice. A statement whose connection was lost is sent once more. A statement without
 * a response after a second is also sent over another connection, and the first response counts. If the second connection
 * responds first, the first one is unresponsive and is closed. If not, the statement is just slow. Only one statement at a
 * time is hedged, because a slow database must not get twice the work.
 */
export function createQuerySender(pool: ConnectionPool): SendQuery {
	let hedging = false;

	/** @returns the first response: the pending one, or that of another connection, which then replaces the first */
	async function hedge<Rows>(
		connection: Connection,
		pending: Promise<Rows>,
		statement: (sql: Sql) => PendingStatement<Rows>,
	) {
		hedging = true;
		const suspected = connection.client;
		const other = openClient(pool.options);
		try {
			const copy: Promise<Rows> = statement(other.sql);
			const keptWaiting = pending.then(
				() => true,
				() => true,
			);
			// The failure of a copy is ignored.
			const isSlow = await Promise.race([keptWaiting, copy.then(() => false).catch(() => keptWaiting)]);
			if (isSlow) {
				endClient(other);
				return await pending;
			}
			// At the deadline the connection was already replaced.
			if (connection.client === suspected) connection.replace(other);
			else endClient(other);
			return await copy;
		} finally {
			hedging = false;
		}
	}

	async function send<Rows>(
		connection: Connection,
		turn: Turn,
		statement: (sql: Sql) => PendingStatement<Rows>,
	): Promise<Rows> {
		const response: Promise<Rows> = statement(connection.client.sql);
		let awaited = response;
		for (let waitMs = hedgeAfterMs; ; waitMs = hedgeRetryMs) {
			const rows = await withDeadline(awaited, Math.min(waitMs, turn.until - performance.now()));
			if (rows !== timedOut) return rows;
			if (performance.now() >= turn.until) {
				connection.replace();
				throw new DeadlineError(turn.until - turn.askedAt, true);
			}
			if (awaited === response && !hedging) awaited = hedge(connection, response, statement);
		}
	}

	return async (turn, statement) => {
		const connection = await pool.acquire(turn);
		try {
			return await send(connection, turn, statement).catch((error: unknown) => {
				const { lost, readOnly } = judge(error);
				if (readOnly) pool.replaceAll(connection);
				if (!lost && !readOnly) throw error;
				return send(connection, turn, statement);
			});
		} finally {
			pool.release(connection);
		}
	};
}
