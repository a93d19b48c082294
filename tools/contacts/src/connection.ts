import { hostname, userInfo } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Sql } from '@contacts/common/database/client.js';
import { readHolder } from '@contacts/local-postgres/data-folder.js';
import { CommandError } from './errors.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/**
 * The database for the command: `DATABASE_URL`, or the local one while `start` runs.
 *
 * @throws CommandError when there is neither
 */
export async function findDatabaseUrl(environment: NodeJS.ProcessEnv): Promise<string> {
	if (environment.DATABASE_URL) return environment.DATABASE_URL;
	const holder = await readHolder(resolve(root, environment.LOCAL_DATA_DIR || '.local'));
	if (holder?.databaseUrl) return holder.databaseUrl;
	throw new CommandError('There is no database: set DATABASE_URL, or run "npx -y pnpm@12 start" in another terminal.');
}

/** Runs some work on the operator's connection. */
export async function withDatabase<T>(environment: NodeJS.ProcessEnv, work: (sql: Sql) => Promise<T>): Promise<T> {
	// Loaded only here, so that the help of a command does not load the client.
	const { connectSingle, reach } = await import('@contacts/common/database/connect.js');
	const sql = connectSingle(await findDatabaseUrl(environment), {
		// The user, for the audit log.
		connection: { application_name: 'contacts', 'contacts.actor': actorOf(environment) },
	});
	try {
		await reach(sql);
		return await work(sql);
	} finally {
		await sql.end({ timeout: 5 });
	}
}

/** Runs some work in one transaction, which does and records all of it or nothing. */
export async function withTransaction<T>(environment: NodeJS.ProcessEnv, work: (sql: Sql) => Promise<T>): Promise<T> {
	const { inTransaction } = await import('./backup/transaction.js');
	return inTransaction(await findDatabaseUrl(environment), 'begin', work, actorOf(environment));
}

/** The user of the command: `CONTACTS_ACTOR`, or the user on this machine. */
export function actorOf(environment: NodeJS.ProcessEnv): string {
	return environment.CONTACTS_ACTOR || `${userName()}@${hostname()}`;
}

function userName(): string {
	try {
		return userInfo().username;
	} catch {
		// A user without a name, as containers may have.
		return `uid ${process.getuid?.()}`;
	}
}
