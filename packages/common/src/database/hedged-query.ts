import { timedOut, withDeadline } from '../process/with-deadline.js';
import type { Turn } from './admission.js';
import type { PendingStatement, Sql } from './client.js';
import { DeadlineError, judge } from './errors.js';
import { type Connection, type ConnectionPool, endClient, openClient } from './pool.js';

/** A statement without a response after this time is tried over another connection: few take so long. */
const hedgeAfterMs = 1000;

/** Between two looks whether a statement may be tried so by now. */
const hedgeRetryMs = 100;

type SendQuery = <Rows>(turn: Turn, statement: (sql: Sql) => PendingStatement<Rows>) => Promise<Rows>;

/**
 * Sends statements that may be executed twice. One whose connection was lost is sent once more. One that has no response after
 * a second is tried over another connection as well: the first response counts. When that is the other one's, the connection
 * has become unresponsive and is ended. When not, the statement is merely slow. Only one statement at a time is tried
 * so, because a database that is slow must not get twice the work.
 */
export function createQuerySender(pool: ConnectionPool): SendQuery {
	let hedging = false;

	/** @returns what comes first: the pending response, or that of another connection, which takes the place of the first then */
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
			// A copy that fails says nothing.
			const isSlow = await Promise.race([keptWaiting, copy.then(() => false).catch(() => keptWaiting)]);
			if (isSlow) {
				endClient(other);
				return await pending;
			}
			// At the deadline the connection has been replaced already.
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
