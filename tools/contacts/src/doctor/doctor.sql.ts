import type { Sql } from '@contacts/common/database/client.js';

interface ServerRow {
	/** `server_version_num`, such as 150004. */
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
	/** Whether it has rights beyond its grants. */
	is_privileged: boolean;
	/** Null: only a superuser can read it. */
	has_password: boolean | null;
}

export async function readRoles(sql: Sql, names: readonly string[]): Promise<readonly RoleRow[]> {
	const [row] = await sql<[{ visible: boolean }]>`select has_table_privilege('pg_authid', 'select') as visible`;
	const password = row.visible
		? sql`(select a.rolpassword is not null from pg_authid a where a.oid = r.oid)`
		: sql`null::boolean`;
	return sql<RoleRow[]>`
		select rolname as name, rolcanlogin as can_login, rolsuper or rolcreaterole or rolbypassrls as is_privileged,
		       ${password} as has_password
		from pg_roles r where rolname in ${sql([...names])} order by rolname`;
}

interface OwnerRow {
	/** The owner of the tables. */
	owner: string;
	is_superuser: boolean;
	database: string;
	/** The roles, including `public`, that may create temporary objects in this database. */
	temporary: string[];
	/** The roles, including `public`, that may create objects in the schema. */
	creating: string[];
	/** Functions that run with their owner's rights and could resolve names to objects of the caller. */
	unsafe_functions: string[];
}

/** @param names the roles that must own nothing */
export async function readOwner(sql: Sql, names: readonly string[]): Promise<OwnerRow> {
	const [row] = await sql<[OwnerRow]>`
		with others (name) as (
			select 'public' union all select rolname from pg_roles where rolname in ${sql([...names])} and not rolsuper
		)
		select o.rolname as owner,
		       o.rolsuper as is_superuser,
		       current_database() as database,
		       (select coalesce(json_agg(name), '[]') from others where has_database_privilege(name, current_database(), 'temporary')) as temporary,
		       (select coalesce(json_agg(name), '[]') from others where has_schema_privilege(name, 'public', 'create')) as creating,
		       (
		         select coalesce(json_agg(p.oid::regprocedure::text order by 1), '[]')
		         from pg_proc p
		         where p.pronamespace = 'public'::regnamespace and p.prosecdef
		           and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
		           and not exists (select from unnest(p.proconfig) setting where setting ~ '^search_path=(.*, ?)?pg_temp$')
		       ) as unsafe_functions
		from pg_class c join pg_roles o on o.oid = c.relowner
		where c.oid = 'public.projects'::regclass`;
	return row;
}

export async function countContacts(sql: Sql): Promise<number> {
	const [row] = await sql<[{ count: number }]>`select count(*)::float8 as count from company_contacts`;
	return row.count;
}
