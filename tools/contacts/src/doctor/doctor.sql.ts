import type { Sql } from '@contacts/common/database/client.js';

export interface ServerRow {
	/** Such as 150004. */
	version_number: number;
	version: string;
	encoding: string;
	read_only: boolean;
	fsync: string;
	full_page_writes: string;
	synchronous_commit: string;
}

export async function readServer(sql: Sql): Promise<ServerRow> {
	const [row] = await sql<[ServerRow]>`
		select current_setting('server_version_num')::int as version_number,
		       split_part(current_setting('server_version'), ' ', 1) as version,
		       current_setting('server_encoding') as encoding,
		       pg_is_in_recovery() as read_only,
		       current_setting('fsync') as fsync,
		       current_setting('full_page_writes') as full_page_writes,
		       current_setting('synchronous_commit') as synchronous_commit`;
	return row;
}

/** The database's clock, milliseconds since the epoch. */
export async function readClock(sql: Sql): Promise<number> {
	const [row] = await sql<[{ now: number }]>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`;
	return row.now;
}

export interface RoleRow {
	name: string;
	can_login: boolean;
	/** It may do more than any grant says. */
	is_mighty: boolean;
	/** Null: only a superuser may know. */
	has_password: boolean | null;
}

export async function readRoles(sql: Sql, names: readonly string[]): Promise<readonly RoleRow[]> {
	const [row] = await sql<[{ visible: boolean }]>`select has_table_privilege('pg_authid', 'select') as visible`;
	const password = row.visible
		? sql`(select a.rolpassword is not null from pg_authid a where a.oid = r.oid)`
		: sql`null::boolean`;
	return sql<RoleRow[]>`
		select rolname as name, rolcanlogin as can_login, rolsuper or rolcreaterole or rolbypassrls as is_mighty,
		       ${password} as has_password
		from pg_roles r where rolname in ${sql([...names])} order by rolname`;
}

export interface RightRow {
	role: string;
	table: string;
	/** Such as `select`, in alphabetical order. */
	rights: string[];
}

/** What each role may do with each table, its own rights and inherited ones. */
export function readRights(sql: Sql, names: readonly string[]): Promise<readonly RightRow[]> {
	return sql<RightRow[]>`
		select r.rolname as role, c.relname as "table", json_agg(p.name order by p.name) as rights
		from pg_roles r, pg_class c, (values ('delete'), ('insert'), ('select'), ('truncate'), ('update')) p (name)
		where r.rolname in ${sql([...names])} and not r.rolsuper
		  and c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
		  and has_table_privilege(r.oid, c.oid, p.name)
		group by 1, 2 order by 1, 2`;
}

export async function countContacts(sql: Sql): Promise<number> {
	const [row] = await sql<[{ count: number }]>`select count(*)::float8 as count from company_contacts`;
	return row.count;
}
