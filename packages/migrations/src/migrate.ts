import { readdir, readFile } from 'node:fs/promises';
import { sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describeHolder, findHolder } from '@contacts/common/database/advisory-lock.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { connectSingle, reach } from '@contacts/common/database/connect.js';
import { errorCode } from '@contacts/common/database/errors.js';
import {
	type DatabaseSupport,
	databaseSupport,
	rejectUnsupported,
} from '@contacts/common/database/supported-database.sql.js';
import Postgrator from 'postgrator';
import { createRoles, ownerRole, roles } from './roles.js';

/** An arbitrary number that nothing else in the same database uses. */
const migrationLock = 4_021_967_233;

const migrationsTable = 'schema_migrations';

/** Migrations take seconds. Another process may need longer for a large database, and a deployment must not wait for ever. */
const defaultLockTimeoutMs = 120_000;

const folder = fileURLToPath(new URL('../schema', import.meta.url));

/** What each role may do in the newest schema. */
const rightsFile = new URL('../rights.sql', import.meta.url);

interface MigrateOptions {
	/** Whether to create the roles first, and to migrate as the owner, by a superuser or a provider's administrator. */
	withRoles?: boolean;
	/** Called with a sentence when another session migrates, or holds the lock for it. */
	onWaiting?: (message: string) => void;
	/** The maximum time to wait for that session, in milliseconds. Default: 2 minutes. */
	lockTimeoutMs?: number;
}

type Run = (query: string) => Promise<{ rows: object[] }>;

/**
 * Applies all missing migrations and sets the rights of all roles, in one transaction, so that a failure leaves the database
 * unchanged. If several processes migrate at once, one does the work and the others wait for it. All succeed.
 *
 * @param url connection URL of the schema's owner, or of who may create roles
 * @param to the number of the last migration to apply. Default: all. A newer schema stays unchanged
 * @returns the file names of the migrations that were applied, none when the schema is up to date
 * @throws the PostgreSQL error of the migration that failed, an Error when the wait for a lock was too long, or UnsupportedDatabaseError
 */
export async function migrate(
	url: string,
	to?: number,
	{ withRoles = false, onWaiting = () => undefined, lockTimeoutMs = defaultLockTimeoutMs }: MigrateOptions = {},
): Promise<string[]> {
	let lost = false;
	const sql = connectSingle(url, {
		connection: { application_name: 'contacts migrate' },
		onclose: () => {
			lost = true;
		},
	});
	const run: Run = async (query) => {
		// The client would reconnect, and run the rest outside of the transaction.
		if (lost) throw new Error('the connection was lost; nothing was changed');
		return { rows: [...(await sql.unsafe(query))] };
	};
	try {
		await reach(sql);
		for (const row of (await run(databaseSupport)).rows) rejectUnsupported(row as DatabaseSupport);
		await run('begin');
		await takeLock(sql, run, onWaiting, lockTimeoutMs);
		if (withRoles) {
			await createRoles(run);
			// As the owner, so that nothing belongs to this user.
			await run(`set local search_path to default; set local role ${ownerRole}`);
		}
		// Requests for the same table queue behind a waiting migration. With a longer timeout, they would fail.
		await run(`set local lock_timeout = '2s'`);
		await rejectOtherMigrations(run);
		await requireRoles(run);
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
		// An older or a newer schema has other tables.
		if ((await postgrator.getDatabaseVersion()) === (await newestSchema())) {
			await run(await readFile(rightsFile, 'utf8'));
			await run(afterRestore);
		}
		await run('commit');
		return applied.map((migration) => `${migration.version}.${migration.name}`);
	} catch (error) {
		if (errorCode(error) !== '55P03') throw error;
		throw new Error(
			'A transaction has held a table for more than 2 seconds, so nothing was changed: run it again, or end that transaction first (pg_stat_activity shows it).',
			{ cause: error },
		);
	} finally {
		await sql.end({ timeout: 5 });
	}
}

/**
 * Makes partners' cursors from before a restore expire, and a full sync run due, from its first contact on: the dump may have
 * contacts that the CRM has deleted since, also among those that an unfinished run has read. The history of the database tells that its tables were restored, or that its server was copied or promoted.
 */
const afterRestore = `
	with restored as (
		update public.company_contacts_version
		set epoch = gen_random_uuid(), version = version + 1, history = public.database_history()
		where history <> public.database_history()
		returning only_row
	)
	update public.crm_sync_state set last_full_at = null, full_begun_at = null where exists (select from restored)`;

/** Takes the lock until the end of the transaction. */
async function takeLock(sql: Sql, run: Run, onWaiting: (message: string) => void, timeoutMs: number): Promise<void> {
	const holder = async () => describeHolder(await findHolder(sql, migrationLock));
	const [row] = (await run(`select pg_try_advisory_xact_lock(${migrationLock}) as locked`)).rows as {
		locked: boolean;
	}[];
	if (row?.locked) return;
	const seconds = Math.ceil(timeoutMs / 1000);
	onWaiting(`Waiting up to ${seconds} seconds for the lock of the migrations. It is held by ${await holder()}.`);
	try {
		await run(`set local lock_timeout = ${timeoutMs}`);
		await run(`select pg_advisory_xact_lock(${migrationLock})`);
	} catch (error) {
		if (errorCode(error) !== '55P03') throw error;
		await run('rollback');
		throw new Error(
			`The lock of the migrations was not free within ${seconds} seconds, so nothing was changed. It is held by ${await holder()}. Run it again, or end that session first.`,
			{ cause: error },
		);
	}
}

/** Other tools have a table of this name too: its versions would count as ours, and it would get more columns. */
async function rejectOtherMigrations(run: Run): Promise<void> {
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

/** The database can't be migrated as it is. The message is one line for the person who runs the migration. */
export class MigrationError extends Error {
	override name = 'MigrationError';
}

/** Migrations grant rights to the roles, and only a superuser can create them. */
async function requireRoles(run: Run): Promise<void> {
	const names = Object.values(roles);
	const { rows } = await run(
		`select name from unnest(array['${names.join("', '")}']) name where not exists (select from pg_roles where rolname = name)`,
	);
	if (rows.length > 0) {
		const missing = (rows as { name: string }[]).map(({ name }) => name).join(', ');
		throw new MigrationError(
			`Roles are missing (${missing}), so nothing was changed: run "contacts migrate --roles" as a superuser or as the provider's administrator first.`,
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
