import { readFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Sql } from '@contacts/common/database/client.js';
import { connectSingle, reach } from '@contacts/common/database/connect.js';
import { CommandError } from './errors.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/**
 * The database for the command: `DATABASE_URL`, or the local one while `start` runs, which writes its URL to a file.
 *
 * @throws CommandError when there is neither
 */
export function findDatabaseUrl(environment: NodeJS.ProcessEnv): string {
	if (environment.DATABASE_URL) return environment.DATABASE_URL;
	const file = join(resolve(root, environment.LOCAL_DATA_DIR || '.local'), 'database.json');
	try {
		return (JSON.parse(readFileSync(file, 'utf8')) as { url: string }).url;
	} catch {
		throw new CommandError(
			'There is no database: set DATABASE_URL, or run "npx -y pnpm@12 start" in another terminal.',
		);
	}
}

/** Runs some work on the operator's connection. */
export async function withDatabase<T>(environment: NodeJS.ProcessEnv, work: (sql: Sql) => Promise<T>): Promise<T> {
	const sql = connectSingle(findDatabaseUrl(environment), { connection: settingsOf(environment) });
	try {
		await reach(sql);
		return await work(sql);
	} finally {
		await sql.end({ timeout: 5 });
	}
}

/**
 * Runs some work in one transaction, which does and records all of it or nothing, on a connection without statement timeouts.
 */
export async function withTransaction<T>(environment: NodeJS.ProcessEnv, work: (sql: Sql) => Promise<T>): Promise<T> {
	let isOpen = false;
	const sql: Sql = connectSingle(findDatabaseUrl(environment), {
		onclose() {
			// Otherwise the client would reconnect and run the rest outside the transaction.
			if (isOpen) void sql.end({ timeout: 0 });
		},
		connection: {
			...settingsOf(environment),
			statement_timeout: 0,
			idle_in_transaction_session_timeout: 0,
			// Milliseconds.
			lock_timeout: 10_000,
		},
	});
	try {
		await reach(sql);
		await sql`begin`;
		isOpen = true;
		const result = await work(sql);
		await sql`commit`;
		return result;
	} finally {
		// The server rolls back what was not committed.
		await sql.end({ timeout: 0 });
	}
}

const settingsOf = (environment: NodeJS.ProcessEnv) => ({
	application_name: 'contacts',
	// Who it was, for the audit log.
	'contacts.actor': environment.CONTACTS_ACTOR || `${userName()}@${hostname()}`,
});

function userName(): string {
	try {
		return userInfo().username;
	} catch {
		// A user without a name, as containers may have.
		return `uid ${process.getuid?.()}`;
	}
}
