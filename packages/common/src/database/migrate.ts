import { readdir } from 'node:fs/promises';
import { sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import Postgrator from 'postgrator';
import { connect, reach } from './connect.js';

/** Any number that nothing else in the same database uses. */
const migrationLock = 4_021_967_233;

const folder = fileURLToPath(new URL('../../migrations', import.meta.url));

/**
 * Brings the schema up to date: all missing migrations in one transaction, so that a failure leaves the schema as it was.
 * Of several processes that migrate at once one works and the others wait for it; all succeed.
 *
 * @param url connection of the schema's owner
 * @param to the number of the last migration to apply; without it, all. A schema beyond it stays
 * @returns the file names of the migrations that were applied, none when the schema is up to date
 * @throws the PostgreSQL error of the migration that failed, or an Error that says so where a lock was waited for too long
 */
export async function migrate(url: string, to?: number): Promise<string[]> {
	let lost = false;
	const sql = connect(url, {
		max: 1,
		fetch_types: false,
		connect_timeout: 10,
		max_lifetime: null,
		idle_timeout: 0,
		connection: { application_name: 'contacts migrate' },
		onnotice: () => undefined,
		onclose: () => {
			lost = true;
		},
	});
	const run = async (query: string) => {
		// The client would reconnect, and the rest would run outside of the transaction.
		if (lost) throw new Error('the connection was lost; nothing was changed');
		return { rows: [...(await sql.unsafe(query))] };
	};
	try {
		await reach(sql);
		await run('begin');
		await run(`select pg_advisory_xact_lock(${migrationLock})`);
		// Whoever needs the same table waits behind a migration that waits: longer than this, requests would fail.
		await run(`set local lock_timeout = '2s'`);
		const postgrator = new Postgrator({
			driver: 'pg',
			migrationPattern: `${literal(folder)}/*.sql`,
			schemaTable: 'schema_migrations',
			newline: 'LF',
			execQuery: run,
		});
		const applied = await postgrator.migrate(to?.toString());
		await run('commit');
		return applied.map((migration) => `${migration.version}.${migration.name}`);
	} catch (error) {
		if ((error as { code?: string }).code !== '55P03') throw error;
		throw new Error(
			'A transaction has held a table for more than 2 seconds, so nothing was changed: run it again, or end that transaction first (pg_stat_activity shows it).',
			{ cause: error },
		);
	} finally {
		await sql.end({ timeout: 5 });
	}
}

/** The number of the newest migration that this release has. */
export async function newestSchema(): Promise<number> {
	return Math.max(...(await readdir(folder)).map((name) => Number.parseInt(name, 10)));
}

/** A path in which no character has a meaning as a pattern. */
function literal(path: string): string {
	return sep === '\\' ? path.replaceAll('\\', '/') : path.replace(/[\\?*()[\]{}!+@]/g, '\\$&');
}
