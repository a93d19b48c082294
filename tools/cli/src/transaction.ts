import type { Sql } from '@contacts/common/database/client.js';
import { connectSingle, reach } from '@contacts/common/database/connect.js';
import { isLostConnection } from '@contacts/common/database/errors.js';
import { CommandError } from './errors.js';

/**
 * Runs `work` in one transaction, on a separate connection without statement timeouts.
 *
 * @param actor the user, for the audit log
 * @throws CommandError when the connection is lost; nothing has changed then
 */
export async function inTransaction<T>(url: string, actor: string, work: (sql: Sql) => Promise<T>): Promise<T> {
	let state: 'connecting' | 'open' | 'committing' | 'over' = 'connecting';
	let lost = false;
	let isDone = false;
	const sql: Sql = connectSingle(url, {
		onclose() {
			if (state !== 'open' && state !== 'committing') return;
			lost = true;
			// Otherwise the client would reconnect and run the rest outside the transaction.
			void sql.end({ timeout: 0 });
		},
		connection: {
			application_name: 'contacts',
			'contacts.actor': actor,
			statement_timeout: 0,
			idle_in_transaction_session_timeout: 0,
			// Milliseconds.
			lock_timeout: 10_000,
		},
	});
	try {
		await reach(sql);
		await sql`begin`;
		state = 'open';
		const result = await work(sql);
		state = 'committing';
		await sql`commit`;
		isDone = true;
		return result;
	} catch (error) {
		// The error may come before the client reports that the connection closed.
		lost ||= isDatabaseError(error) && isLostConnection(error);
		if (!lost || (state as string) === 'connecting') throw explain(error);
		const outcome =
			(state as string) === 'committing' ? 'it was at the very end, so look whether it is done' : 'nothing was changed';
		throw new CommandError(`The connection to the database was lost; ${outcome}. Try again.`);
	} finally {
		state = 'over';
		// The server rolls back what was not committed.
		await sql.end({ timeout: isDone ? 5 : 0 });
	}
}

/** Whether an error comes from the database client. Errors of files and pipes have the same codes. */
function isDatabaseError(error: unknown): boolean {
	return error instanceof Error && 'query' in error;
}

function explain(error: unknown): unknown {
	const { code } = error as { code?: string };
	if (code === '55P03') {
		return new CommandError(
			'Somebody else has been writing for 10 seconds; nothing was changed. Try again, or stop them.',
		);
	}
	return error;
}
