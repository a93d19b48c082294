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

/** The number of the last migration. Undefined: there are no tables. */
export async function readSchemaVersion(sql: Sql): Promise<number | undefined> {
	const [row] = await sql<[{ exists: boolean }]>`select to_regclass('public.schema_migrations') is not null as exists`;
	if (!row.exists) return undefined;
	const [{ version }] = await sql<[{ version: number }]>`
		select coalesce(max(version), 0)::int as version from schema_migrations`;
	return version;
}

interface RoleRow {
	name: string;
	can_login: boolean;
	/** Whether it has rights beyond its grants. */
	is_privileged: boolean;
}

export function readRoles(sql: Sql, names: readonly string[]): Promise<readonly RoleRow[]> {
	return sql<RoleRow[]>`
		select rolname as name, rolcanlogin as can_login, rolsuper or rolcreaterole or rolbypassrls as is_privileged
		from pg_roles where rolname in ${sql([...names])} order by rolname`;
}

interface OwnerRow {
	/** The owner of the tables. */
	owner: string;
	is_superuser: boolean;
	/** Whether it could join any role that is not a superuser. */
	can_join_roles: boolean;
	database: string;
	/** The roles that may create temporary objects in this database. Only `public` where everybody may. */
	temporary: string[];
	/** The roles that may create objects in the schema. Only `public` where everybody may. */
	creating: string[];
}

/** @param names the roles that must own nothing */
export async function readOwner(sql: Sql, names: readonly string[]): Promise<OwnerRow> {
	const [row] = await sql<[OwnerRow]>`
		with others (name) as (
			select 'public' union all select rolname from pg_roles where rolname in ${sql([...names])} and not rolsuper
		)
		select o.rolname as owner,
		       o.rolsuper as is_superuser,
		       o.rolcreaterole and current_setting('server_version_num')::int < 160000 as can_join_roles,
		       current_database() as database,
		       (select coalesce(json_agg(name), '[]') from others where has_database_privilege(name, current_database(), 'temporary')) as temporary,
		       (select coalesce(json_agg(name), '[]') from others where has_schema_privilege(name, 'public', 'create')) as creating
		from pg_class c join pg_roles o on o.oid = c.relowner
		where c.oid = 'public.projects'::regclass`;
	const holders = (given: string[]) => (given.includes('public') ? ['public'] : given);
	return { ...row, temporary: holders(row.temporary), creating: holders(row.creating) };
}

export interface KeyToCheck {
	id: number;
	project: string;
	expires_at: string | null;
	last_used_at: string | null;
	expires_soon: boolean;
	is_unused: boolean;
}

/** The live keys of enabled projects that expire soon, or that nobody has used for long, in the order of their IDs. */
export function readKeysToCheck(
	sql: Sql,
	{ daysBeforeExpiry, daysUnused }: { daysBeforeExpiry: number; daysUnused: number },
): Promise<readonly KeyToCheck[]> {
	const minute = (column: string) =>
		sql.unsafe(`to_char(${column} at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as ${column}`);
	return sql<KeyToCheck[]>`
		select * from (
			select k.id::float8 as id, p.code as project, ${minute('expires_at')}, ${minute('last_used_at')},
			       coalesce(k.expires_at < now() + make_interval(days => ${daysBeforeExpiry}::int), false) as expires_soon,
			       coalesce(u.last_used_at, k.created_at) < now() - make_interval(days => ${daysUnused}::int) as is_unused
			from api_keys k
			join projects p on p.id = k.project_id
			left join api_key_uses u on u.key_id = k.id
			where k.revoked_at is null and (k.expires_at is null or k.expires_at > now()) and p.disabled_at is null
		) live where expires_soon or is_unused order by id`;
}

export async function countContacts(sql: Sql): Promise<number> {
	const [row] = await sql<[{ count: number }]>`select count(*)::float8 as count from company_contacts`;
	return row.count;
}
