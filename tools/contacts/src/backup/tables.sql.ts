import type { Sql } from '@contacts/common/database/client.js';

/** What a backup holds, each table after those that it refers to. The rows are read in the order of the key. */
const tables = [
	{ name: 'projects', key: 'id', type: 'bigint' },
	{ name: 'api_keys', key: 'id', type: 'bigint' },
	{ name: 'api_key_uses', key: 'key_id', type: 'bigint' },
	{ name: 'audit_log', key: 'id', type: 'bigint' },
	{ name: 'personal_contacts', key: 'chat_id', type: 'bigint' },
	{ name: 'direct_subscriptions', key: 'id', type: 'bigint' },
	{ name: 'company_contacts', key: 'id', type: 'bigint' },
	{ name: 'crm_sync_state', key: 'only_row', type: 'boolean' },
	// A full pass that is under way, which the next one reads again: backups of earlier schemas have it.
	{ name: 'crm_sync_staging', key: 'bitrix_id', type: 'bigint', beforeSchema: 9 },
	{ name: 'crm_sync_runs', key: 'id', type: 'bigint' },
	{ name: 'crm_event_inbox', key: 'bitrix_id', type: 'bigint' },
] as const;

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
	key: string;
	type: string;
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
	const schema = await readSchemaVersion(sql);
	for (const { name, key, type, ...limits } of tables) {
		if ('beforeSchema' in limits && schema !== undefined && schema >= limits.beforeSchema) continue;
		const [row] = await sql<[{ columns: string[] | null; sequence: string | null }]>`
			select json_agg(attname order by attnum) as columns,
			       max(pg_get_serial_sequence('public.' || ${name}::text, attname)) filter (where attidentity <> '') as sequence
			from pg_attribute
			where attrelid = to_regclass('public.' || ${name}::text) and attnum > 0 and not attisdropped`;
		if (row.columns === null) continue;
		const nextId = row.sequence === null ? null : await readNextId(sql, row.sequence);
		found.push({ name, key, type, columns: row.columns, sequence: row.sequence, nextId });
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

export interface Page {
	/** Each row as a JSON object, one a line. */
	lines: string[];
	/** Where the next page goes on. */
	last: string;
}

/** The rows behind a key, in its order; undefined when there are no more. */
export async function readPage(
	sql: Sql,
	table: Table,
	after: string | undefined,
	limit: number,
): Promise<Page | undefined> {
	const beyond =
		after === undefined ? sql`` : sql`where t.${sql(table.key)} > ${after}::text::${sql.unsafe(table.type)}`;
	const rows = await sql<{ line: string; key: string }[]>`
		select row_to_json(t)::text as line, t.${sql(table.key)}::text as key
		from ${sql(table.name)} t ${beyond} order by t.${sql(table.key)} limit ${limit}`;
	const last = rows.at(-1);
	return last === undefined ? undefined : { lines: rows.map((row) => row.line), last: last.key };
}

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

/** What was given out of the contacts of before can't be continued. */
export async function beginContactsEpoch(sql: Sql): Promise<void> {
	if (await exists(sql, 'company_contacts_version')) await sql`select begin_company_contacts_epoch()`;
}

async function exists(sql: Sql, table: string): Promise<boolean> {
	const [row] = await sql<[{ exists: boolean }]>`
		select to_regclass('public.' || ${table}::text) is not null as exists`;
	return row.exists;
}

/** Stores rows exactly as they were read, their IDs too. */
export async function insertRows(sql: Sql, { name, columns }: Table, lines: readonly string[]): Promise<void> {
	await sql`
		insert into ${sql(name)} (${sql(columns)}) overriding system value
		select ${sql(columns)} from json_populate_recordset(null::${sql(name)}, ${`[${lines.join(',')}]`}::text::json)`;
}

/** Gives the next row this ID. Undone with the transaction. */
export async function restartSequence(sql: Sql, sequence: string, next: number): Promise<void> {
	await sql.unsafe(`alter sequence ${sequence} restart with ${BigInt(next)}`);
}
