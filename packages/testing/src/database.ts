import { randomBytes } from 'node:crypto';
import type { Sql } from '@contacts/common/database/client.js';
import postgres from 'postgres';
import { inject } from 'vitest';

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
	/** Drops the database. An open connection makes this fail, and so the test file. */
	drop(): Promise<void>;
}

export function serverUrl(database: string): string {
	return inject('databaseUrl').replace('DATABASE', database);
}

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
				await waitForOthers(admin, name);
				await admin.unsafe(`drop database ${name}${(await isLeftByProcesses(admin, name)) ? ' with (force)' : ''}`);
			});
		},
	};
}

/** The server lists a closed connection until it notices the close. Wait a moment for this. */
async function waitForOthers(admin: Sql, name: string): Promise<void> {
	for (let tries = 0; tries < 200; tries++) {
		const [row] = await admin<{ count: number }[]>`
			select count(*)::int as count, pg_sleep(case when count(*) > 0 then 0.05 else 0 end)
			from pg_stat_activity where datname = ${name}`;
		if (row?.count === 0) return;
	}
}

/** Application names of connections from the test process. The code under test left these open. */
const ownApplications = /^(test.*|contacts|company-contacts-(sync|events))$/;

/** Whether only killed processes or the test's client are still connected. It prints their names. */
async function isLeftByProcesses(admin: Sql, name: string): Promise<boolean> {
	const left = await admin<{ application_name: string; state: string | null; query: string }[]>`
		select application_name, state, query from pg_stat_activity where datname = ${name}`;
	if (left.length === 0) return false;
	console.warn(`still connected to ${name}: ${JSON.stringify(left)}`);
	return !left.some((each) => ownApplications.test(each.application_name));
}

async function administer<T>(work: (sql: Sql) => Promise<T>): Promise<void> {
	const sql: Sql = postgres(serverUrl('postgres'), { max: 1, fetch_types: false, onnotice: () => undefined });
	try {
		await work(sql);
	} finally {
		await sql.end({ timeout: 5 });
	}
}
