import { readFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Sql } from '@contacts/common/database/client.js';
import { classify } from '@contacts/common/database/errors.js';
import { CommandError } from './errors.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/**
 * The database for the command: `DATABASE_URL`, or the local one while `start` runs.
 *
 * @throws CommandError when there is neither
 */
export async function findDatabaseUrl(environment: NodeJS.ProcessEnv): Promise<string> {
	if (environment.DATABASE_URL) return environment.DATABASE_URL;
	return findLocalDatabase(resolve(root, environment.LOCAL_DATA_DIR || '.local'));
}

/** The database of `start`, which writes its URL to this file. A `start` that was killed leaves the file. */
async function findLocalDatabase(dataFolder: string): Promise<string> {
	const file = join(dataFolder, 'database.json');
	const whatToDo = 'set DATABASE_URL, or run "npx -y pnpm@12 start" in another terminal';
	let url: string;
	try {
		({ url } = JSON.parse(readFileSync(file, 'utf8')) as { url: string });
	} catch {
		throw new CommandError(`There is no database: ${whatToDo}.`);
	}
	const { connectSingle, reach } = await import('@contacts/common/database/connect.js');
	const sql = connectSingle(url);
	try {
		await reach(sql);
		return url;
	} catch (error) {
		const { code } = error as { code?: string };
		const reason = code === '28P01' ? 'refuses the password' : `does not respond (${code})`;
		throw new CommandError(`There is no database: the one in ${file} ${reason}. To go on, ${whatToDo}.`);
	} finally {
		await sql.end({ timeout: 0 });
	}
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

/**
 * Runs some work in one transaction, which does and records all of it or nothing, on a separate connection without statement
 * timeouts.
 *
 * @throws CommandError when the connection is lost
 */
export async function withTransaction<T>(environment: NodeJS.ProcessEnv, work: (sql: Sql) => Promise<T>): Promise<T> {
	const { connectSingle, reach } = await import('@contacts/common/database/connect.js');
	let state: 'connecting' | 'open' | 'committing' | 'over' = 'connecting';
	let isLost = false;
	const sql: Sql = connectSingle(await findDatabaseUrl(environment), {
		onclose() {
			if (state !== 'open' && state !== 'committing') return;
			isLost = true;
			// Otherwise the client would reconnect and run the rest outside the transaction.
			void sql.end({ timeout: 0 });
		},
		connection: {
			application_name: 'contacts',
			'contacts.actor': actorOf(environment),
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
		return result;
	} catch (error) {
		if ((error as { code?: string }).code === '55P03')
			throw new CommandError(
				'Somebody else has been writing for 10 seconds; nothing was changed. Try again, or stop them.',
			);
		// The error may come before the client reports that the connection closed. Errors of files and pipes have the same codes.
		isLost ||=
			(state as string) !== 'connecting' &&
			error instanceof Error &&
			'query' in error &&
			classify(error).kind === 'lost';
		if (!isLost) throw error;
		const outcome =
			(state as string) === 'committing' ? 'it was at the very end, so look whether it is done' : 'nothing was changed';
		throw new CommandError(`The connection to the database was lost; ${outcome}. Try again.`);
	} finally {
		const timeout = state === 'committing' ? 5 : 0;
		state = 'over';
		// The server rolls back what was not committed.
		await sql.end({ timeout });
	}
}

/** The user of the command: `CONTACTS_ACTOR`, or the user on this machine. */
function actorOf(environment: NodeJS.ProcessEnv): string {
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
