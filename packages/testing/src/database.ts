import { randomBytes } from 'node:crypto';
import type { Sql } from '@contacts/common/database/client.js';
import postgres from 'postgres';
import { inject } from 'vitest';

declare module 'vitest' {
	interface ProvidedContext {
		/** Superuser's URL of the test server, with `DATABASE` where the name of a database belongs. */
		databaseUrl: string;
	}
}

export const templateDatabase = 'contacts_template';

/** Of every role, on the test server. */
export const rolePassword = 'test';

export interface TestDatabase {
	url: string;
	/** The superuser, for arranging and for looking at what was stored. */
	sql: Sql;
	/** Drops the database. A connection that was left open makes this fail, and with it the test file. */
	drop(): Promise<void>;
}

export function serverUrl(database: string): string {
	return inject('databaseUrl').replace('DATABASE', database);
}

/** A migrated database beside that of the test file. */
export async function createTestDatabase(template = templateDatabase): Promise<TestDatabase> {
	const name = `test_${randomBytes(8).toString('hex')}`;
	await administer(async (sql) => {
		await sql.unsafe(`create database ${name} template ${template} strategy file_copy`);
		// What migrations do to the database itself is not copied.
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

/** A connection that was closed by its client is still listed until the server has noticed: give it that moment. */
async function waitForOthers(admin: Sql, name: string): Promise<void> {
	for (let tries = 0; tries < 200; tries++) {
		const [row] = await admin<{ count: number }[]>`
			select count(*)::int as count, pg_sleep(case when count(*) > 0 then 0.05 else 0 end)
			from pg_stat_activity where datname = ${name}`;
		if (row?.count === 0) return;
	}
}

/** Names of the connections that a test's own process makes: one of these was left open by the code under test. */
const ownApplications = /^(test.*|contacts|company-contacts-(sync|events))$/;

/** Whether all that are still connected are processes which were killed, or the test's own client; they are named. */
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
