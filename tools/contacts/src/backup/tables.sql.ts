import { pipeline } from 'node:stream/promises';
import { type Operation, recordOperation } from '@contacts/common/auth/projects.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { CommandError } from '../errors.js';

/** What a backup holds, each table after those that it refers to. */
const tables = [
	'projects',
	'api_keys',
	'api_key_uses',
	// Behind those whose changes are recorded in it.
	'audit_log',
	'personal_contacts',
	'direct_subscriptions',
	'company_contacts',
	'crm_sync_state',
	'crm_sync_runs',
	'crm_event_inbox',
];

/** What is true of the moment only. A restore empties them. */
const transientTables = ['crm_sync_staging', 'crm_sync_requests', 'direct_subscription_reports'];

/** Made by triggers as contacts change. */
const changeTables = ['company_contacts_version', 'company_contacts_changes', 'company_contacts_lists'];

/**
 * What it does not hold: `schema_migrations` says what the database is, not what is in it, versions must never go back, or a
 * running process would take old keys or contacts for current, and the rest is true of the moment only.
 */
export const excludedTables = ['schema_migrations', 'key_ring_version', ...changeTables, ...transientTables];

/** A table with one row from the beginning: it does not count as something in the database. */
export const stateTable = 'crm_sync_state';

export interface Table {
	name: string;
	columns: string[];
	/** Of the identity column, where there is one. */
	sequence: string | null;
	/** The ID that the next row would get. */
	nextId: number | null;
}

/** The number of the last migration; undefined: there are no tables at all. */
export async function readSchemaVersion(sql: Sql): Promise<number | undefined> {
	if (!(await exists(sql, 'schema_migrations'))) return undefined;
	const [{ version }] = await sql<[{ version: number }]>`
		select coalesce(max(version), 0)::int as version from schema_migrations`;
	return version;
}

/** The tables as they are here: a schema of an earlier release has fewer. */
export async function readTables(sql: Sql): Promise<Table[]> {
	const found: Table[] = [];
	for (const name of tables) {
		const [row] = await sql<[{ columns: string[] | null; sequence: string | null }]>`
			select json_agg(attname order by attnum) as columns,
			       max(pg_get_serial_sequence('public.' || ${name}::text, attname)) filter (where attidentity <> '') as sequence
			from pg_attribute
			where attrelid = to_regclass('public.' || ${name}::text) and attnum > 0 and not attisdropped`;
		if (row.columns === null) continue;
		const nextId = row.sequence === null ? null : await readNextId(sql, row.sequence);
		found.push({ name, columns: row.columns, sequence: row.sequence, nextId });
	}
	return found;
}

async function readNextId(sql: Sql, sequence: string): Promise<number> {
	const [row] = await sql.unsafe<[{ next: number }]>(
		`select (last_value + is_called::int)::float8 as next from ${sequence}`,
	);
	return row.next;
}

export async function countRows(sql: Sql, table: string): Promise<number> {
	const [row] = await sql<[{ count: number }]>`select count(*)::float8 as count from ${sql(table)}`;
	return row.count;
}

/** The rows of a table as text, one a line. */
export async function* readRows(sql: Sql, { name, columns }: Pick<Table, 'name' | 'columns'>): AsyncGenerator<Buffer> {
	const rows = await sql`copy ${sql(name)} (${sql(columns)}) to stdout`.readable();
	try {
		yield* rows;
	} catch (error) {
		throw ofDatabase(error);
	}
}

/** Stores such rows, their IDs too. */
export async function insertRows(sql: Sql, { name, columns }: Table, rows: AsyncIterable<Buffer>): Promise<void> {
	const destination = await sql`copy ${sql(name)} (${sql(columns)}) from stdin`.writable();
	try {
		await pipeline(rows, destination);
	} catch (error) {
		// What is wrong with the rows themselves is no error of the database.
		throw error === destination.errored && !(error instanceof CommandError) ? ofDatabase(error) : error;
	}
}

/** Marked as every error of a statement is: the client marks those of a stream at times. */
const ofDatabase = (error: unknown) =>
	'query' in (error as Error) ? error : Object.assign(error as Error, { query: 'copy' });

/** Keeps everybody else from writing until the end of the transaction. Reading goes on, of what was there before. */
export async function lockTables(sql: Sql, all: readonly Table[]): Promise<void> {
	for (const { name } of all) await sql`lock table ${sql(name)} in share row exclusive mode`;
}

export async function deleteRows(sql: Sql, table: string): Promise<void> {
	await sql`delete from ${sql(table)}`;
}

/** Empties what a backup does not hold and must not survive it. */
export async function deleteTransientRows(sql: Sql): Promise<void> {
	for (const name of transientTables) if (await exists(sql, name)) await deleteRows(sql, name);
}

/** Gives the next row this ID. Undone with the transaction. */
export async function restartSequence(sql: Sql, sequence: string, next: number): Promise<void> {
	await sql.unsafe(`alter sequence ${sequence} restart with ${BigInt(next)}`);
}

/** Copies that partners keep, and lists that processes keep, are of other data: they begin again. */
export async function beginEpoch(sql: Sql): Promise<void> {
	if (await exists(sql, 'company_contacts_version')) await sql`select begin_company_contacts_epoch()`;
}

/** Records what was done in the audit log; not in a schema of before there were such records, nor where nothing can be written. */
export async function record(sql: Sql, operation: Operation, details: object): Promise<void> {
	const [row] = await sql<[{ possible: boolean }]>`
		select to_regprocedure('public.record_operation(text, jsonb)') is not null and not pg_is_in_recovery() as possible`;
	if (row.possible) await recordOperation(sql, operation, details);
}

async function exists(sql: Sql, table: string): Promise<boolean> {
	const [row] = await sql<[{ exists: boolean }]>`
		select to_regclass('public.' || ${table}::text) is not null as exists`;
	return row.exists;
}
