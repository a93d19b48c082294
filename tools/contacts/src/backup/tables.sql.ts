import { pipeline } from 'node:stream/promises';
import { type Operation, recordOperation } from '@contacts/common/auth/projects.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { CommandError } from '../errors.js';

/** The tables of a backup, each after those that it references. */
const tables = [
	'projects',
	'api_keys',
	'api_key_uses',
	// After the tables whose changes it records.
	'audit_log',
	'personal_contacts',
	'direct_subscriptions',
	'company_contacts',
	'crm_sync_state',
	'crm_sync_runs',
	'crm_event_inbox',
];

/** Tables with transient state. A restore empties them. */
const transientTables = ['crm_sync_staging', 'crm_sync_requests', 'direct_subscription_reports'];

/** Filled by triggers as contacts change. */
const changeTables = ['company_contacts_version', 'company_contacts_changes', 'company_contacts_lists'];

/**
 * What a backup does not hold. `schema_migrations` describes the schema, not the data. Versions must never go back, or a
 * running process would treat old keys or contacts as current. The rest is transient state.
 */
export const excludedTables = ['schema_migrations', 'key_ring_version', ...changeTables, ...transientTables];

/** A table that always has one row, so it does not count as existing data. */
export const stateTable = 'crm_sync_state';

export interface Table {
	name: string;
	columns: string[];
	/** The sequence of the identity column, if there is one. */
	sequence: string | null;
	/** The ID of the next row. */
	nextId: number | null;
}

/** The number of the last migration. Undefined: there are no tables. */
export async function readSchemaVersion(sql: Sql): Promise<number | undefined> {
	if (!(await exists(sql, 'schema_migrations'))) return undefined;
	const [{ version }] = await sql<[{ version: number }]>`
		select coalesce(max(version), 0)::int as version from schema_migrations`;
	return version;
}

/** The tables of this database. A schema of an earlier release has fewer. */
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

/** The rows of a table as text, one per line. */
export async function* readRows(sql: Sql, { name, columns }: Pick<Table, 'name' | 'columns'>): AsyncGenerator<Buffer> {
	// PostgreSQL copies a partitioned table only as the result of a query.
	const rows = await sql`copy (select ${sql(columns)} from ${sql(name)}) to stdout`.readable();
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
		// Invalid rows are not an error of the database.
		throw error === destination.errored && !(error instanceof CommandError) ? ofDatabase(error) : error;
	}
}

/** Marked like every error of a statement. The client marks errors of a stream only sometimes. */
const ofDatabase = (error: unknown) =>
	'query' in (error as Error) ? error : Object.assign(error as Error, { query: 'copy' });

/** Blocks all other writes until the end of the transaction. Others can still read the old data. */
export async function lockTables(sql: Sql, all: readonly Table[]): Promise<void> {
	// Commands and reports lock a row of it first, also with `for update`, and then change the other tables.
	const first = 'direct_subscription_reports';
	if (await exists(sql, first)) await sql`lock table ${sql(first)} in exclusive mode`;
	for (const { name } of all) await sql`lock table ${sql(name)} in share row exclusive mode`;
}

export async function deleteRows(sql: Sql, table: string): Promise<void> {
	await sql`delete from ${sql(table)}`;
}

/** Empties the tables that a backup does not hold and that must not survive a restore. */
export async function deleteTransientRows(sql: Sql): Promise<void> {
	for (const name of transientTables) if (await exists(sql, name)) await deleteRows(sql, name);
}

/** Sets the ID of the next row. Rolls back with the transaction. */
export async function restartSequence(sql: Sql, sequence: string, next: number): Promise<void> {
	await sql.unsafe(`alter sequence ${sequence} restart with ${BigInt(next)}`);
}

/** Copies of partners and cached lists have other data, so they must start again. */
export async function beginEpoch(sql: Sql): Promise<void> {
	if (await exists(sql, 'company_contacts_version')) await sql`select begin_company_contacts_epoch()`;
}

/** Contacts that were deleted in the CRM after the backup are back, and only a full pass finds them. */
export async function makeFullPassDue(sql: Sql): Promise<void> {
	if (await exists(sql, stateTable)) await sql`update crm_sync_state set last_full_at = null`;
}

/** Records the action in the audit log, unless the schema is too old for such records or the database is read-only. */
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
