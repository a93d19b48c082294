import { randomBytes } from 'node:crypto';
import type { Sql } from '@contacts/common/database/client.js';
import postgres from 'postgres';
import { inject, vi } from 'vitest';

declare module 'vitest' {
	interface ProvidedContext {
		/** Superuser's URL of the test server, with `DATABASE` as a placeholder for the database's name. */
		databaseUrl: string;
	}
}

export const templateDatabase = 'contacts_template';

/** The password of every role on the test server. */
export const rolePassword = 'test';

export interface TestDatabase {
	url: string;
	/** A superuser connection, to prepare data and to check what was stored. */
	sql: Sql;
	/** Drops the database. An open connection of the test process makes this fail, and so the test file. */
	drop(): Promise<void>;
}

const serverUrl = (database: string) => inject('databaseUrl').replace('DATABASE', database);

/** A migrated database in addition to that of the test file. Only an empty one, from `template0`, can have another encoding. */
export async function createTestDatabase(template = templateDatabase, encoding = 'UTF8'): Promise<TestDatabase> {
	const name = `test_${randomBytes(8).toString('hex')}`;
	await administer(async (sql) => {
		await sql.unsafe(`create database ${name} template ${template} encoding '${encoding}' strategy file_copy`);
		// Changes of migrations to the database itself are not copied.
		if (template === templateDatabase) await sql.unsafe(`revoke temporary on database ${name} from public`);
	});
	const url = serverUrl(name);
	const sql: Sql = postgres(url, { max: 4, fetch_types: false, onnotice: () => undefined });
	return {
		url,
		sql,
		async drop() {
			await sql.end({ timeout: 5 });
			await administer(async (admin) => {
				const drop = async () => {
					await admin`
						select pg_terminate_backend(pid) from pg_stat_activity
						where datname = ${name} and application_name !~ ${ownApplications}`;
					await admin.unsafe(`drop database ${name}`);
				};
				// The server lists a closed connection until it notices the close.
				await vi.waitFor(drop, { timeout: 20_000 });
			});
		},
	};
}

/** Application names of connections from the test process, which it must close. A killed process can leave others open. */
export const ownApplications = '^(test.*|contacts|crm-sync)$';

const administer = <T>(work: (sql: Sql) => Promise<T>) => withConnection(serverUrl('postgres'), work);

/** Runs this on a separate connection to the database of this URL. */
export async function withConnection<T>(url: string, work: (sql: Sql) => Promise<T>): Promise<T> {
	const sql = postgres(url, { max: 1, fetch_types: false, onnotice: () => undefined });
	try {
		return await work(sql);
	} finally {
		await sql.end({ timeout: 5 });
	}
}
