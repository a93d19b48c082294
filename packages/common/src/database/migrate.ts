import { readdir } from 'node:fs/promises';
import { sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import Postgrator from 'postgrator';
import { connectSingle, reach } from './connect.js';

/** An arbitrary number that nothing else in the same database uses. */
const migrationLock = 4_021_967_233;

const migrationsTable = 'schema_migrations';

const folder = fileURLToPath(new URL('../../migrations', import.meta.url));

/**
 * Applies all missing migrations in one transaction, so that a failure leaves the schema unchanged. If several processes
 * migrate at once, one does the work and the others wait for it. All succeed.
 *
 * @param url connection URL of the schema's owner
 * @param to the number of the last migration to apply. Default: all. A newer schema stays unchanged
 * @returns the file names of the migrations that were applied, none when the schema is up to date
 * @throws the PostgreSQL error of the migration that failed, or an Error when the wait for a lock was too long
 */
export async function migrate(url: string, to?: number): Promise<string[]> {
	let lost = false;
	const sql = connectSingle(url, {
		connection: { application_name: 'contacts migrate' },
		onclose: () => {
			lost = true;
		},
	});
	const run = async (query: string) => {
		// The client would reconnect, and run the rest outside of the transaction.
		if (lost) throw new Error('the connection was lost; nothing was changed');
		return { rows: [...(await sql.unsafe(query))] };
	};
	try {
		await reach(sql);
		await run('begin');
		await run(`select pg_advisory_xact_lock(${migrationLock})`);
		// Requests for the same table queue behind a waiting migration. With a longer timeout, they would fail.
		await run(`set local lock_timeout = '2s'`);
		await rejectOtherMigrations(run);
		const postgrator = new Postgrator({
			driver: 'pg',
			migrationPattern: `${literal(folder)}/*.sql`,
			schemaTable: migrationsTable,
			// Otherwise a schema that is found first, or a table of the same name in any other schema, would count.
			currentSchema: 'public',
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

/** Other tools have a table of this name too: its versions would count as ours, and it would get more columns. */
async function rejectOtherMigrations(run: (query: string) => Promise<{ rows: object[] }>): Promise<void> {
	const { rows } = await run(
		`select from information_schema.columns where table_schema = 'public' and table_name = '${migrationsTable}'
		having count(*) > 0 and not bool_or(column_name = 'md5')`,
	);
	if (rows.length > 0) {
		throw new Error(
			`The table "${migrationsTable}" in this database is not one of this program, so nothing was changed: use another database.`,
		);
	}
}

/** The number of the newest migration in this release. */
export async function newestSchema(): Promise<number> {
	return Math.max(...(await readdir(folder)).map((name) => Number.parseInt(name, 10)));
}

/** A path with all pattern characters escaped. */
function literal(path: string): string {
	return sep === '\\' ? path.replaceAll('\\', '/') : path.replace(/[\\?*()[\]{}!+@]/g, '\\$&');
}
