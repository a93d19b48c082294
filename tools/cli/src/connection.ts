import { readFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Sql } from '@contacts/common/database/client.js';
import { connectSingle, reach } from '@contacts/common/database/connect.js';
import { errorCode } from '@contacts/common/database/errors.js';
import {
	type DatabaseSupport,
	databaseSupport,
	rejectUnsupported,
} from '@contacts/common/database/supported-database.sql.js';
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

type Work<T> = (sql: Sql) => Promise<T>;

/**
 * Runs some work on the operator's connection.
 *
 * @param settings of the session
 * @param isRenewed whether the client connects again after the connection was lost
 */
export async function withDatabase<T>(
	environment: NodeJS.ProcessEnv,
	work: Work<T>,
	settings: Record<string, number> = {},
	isRenewed = true,
): Promise<T> {
	const sql = connectSingle(findDatabaseUrl(environment), {
		onclose: () => {
			if (!isRenewed) void sql.end({ timeout: 0 });
		},
		connection: {
			application_name: 'contacts',
			// Who it was, for the audit log.
			'contacts.actor': environment.CONTACTS_ACTOR || `${userName()}@${hostname()}`,
			...settings,
		},
	});
	try {
		await reach(sql);
		return await work(sql);
	} catch (error) {
		// A table that is not found may be there.
		if (errorCode(error) === '42P01') {
			const rows = await sql.unsafe<DatabaseSupport[]>(databaseSupport).catch(() => []);
			for (const row of rows) rejectUnsupported(row);
		}
		throw error;
	} finally {
		await sql.end({ timeout: 5 });
	}
}

/** Without timeouts for what takes long; locks in milliseconds. */
export const longWorkSettings = { statement_timeout: 0, idle_in_transaction_session_timeout: 0, lock_timeout: 10_000 };

/** Runs some work in one transaction, which does and records all of it or nothing. Afterwards the connection may be lost. */
export type Transaction = <T>(work: Work<T>) => Promise<T>;

/**
 * Runs some work in transactions on one connection, which is never renewed: what runs in a transaction never runs outside of it.
 *
 * @param settings of the session
 */
export function withTransactions<T>(
	environment: NodeJS.ProcessEnv,
	work: (sql: Sql, transaction: Transaction) => Promise<T>,
	settings: Record<string, number> = longWorkSettings,
): Promise<T> {
	const workOn = (sql: Sql) =>
		work(sql, async (step) => {
			await sql`begin`;
			// If it throws, the connection ends, and the server rolls back.
			const result = await step(sql);
			await sql`commit`;
			return result;
		});
	return withDatabase(environment, workOn, settings, false);
}

/** Runs some work in one transaction, which does and records all of it or nothing. */
export const withTransaction = <T>(environment: NodeJS.ProcessEnv, work: Work<T>): Promise<T> =>
	withTransactions(environment, (_, transaction) => transaction(work));

function userName(): string {
	try {
		return userInfo().username;
	} catch {
		// A user without a name, as containers may have.
		return `uid ${process.getuid?.()}`;
	}
}
