import type { Sql } from '@contacts/common/database/client.js';
import postgres from 'postgres';

export interface TrappedSession {
	sql: Sql;
	/** The roles that have run the code of this session's traps. */
	sprungAs(): Promise<string[]>;
}

/**
 * Opens a session that shadows every table of the schema, and the types in functions, with a temporary trap object. Code
 * that refers to them without a schema finds the trap, and runs it with its own rights.
 *
 * @param admin the superuser, who reads the definitions of the tables
 * @param url connection URL of a role that may create temporary objects
 */
export async function openTrappedSession(admin: Sql, url: string): Promise<TrappedSession> {
	const tables = await admin<{ name: string; columns: string }[]>`
		select c.relname as name,
		       string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum) as columns
		from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
		where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' group by 1`;
	const sql: Sql = postgres(url, { max: 1, onnotice: () => undefined });
	await sql.unsafe(`
		create function pg_temp.spring() returns bool language plpgsql as $$
		begin
			perform set_config('trap.sprung_as', concat(current_setting('trap.sprung_as', true), ' ', current_user), false);
			return true;
		end $$;
		create function pg_temp.swallow() returns trigger language plpgsql as $$
		begin
			perform pg_temp.spring();
			return null;
		end $$;`);
	for (const { name, columns } of tables) {
		await sql.unsafe(`
			create temporary table ${name} (${columns});
			grant all on pg_temp.${name} to public;
			create trigger rows before insert or update or delete on pg_temp.${name}
				for each row execute function pg_temp.swallow();
			create trigger statements before insert or update or delete on pg_temp.${name}
				for each statement execute function pg_temp.swallow();`);
	}
	for (const type of ['text', 'jsonb', 'bool'])
		await sql.unsafe(`create domain pg_temp.${type} as pg_catalog.${type} check (pg_temp.spring())`);
	return {
		sql,
		async sprungAs() {
			const [row] = await sql<{ roles: string }[]>`select current_setting('trap.sprung_as', true) as roles`;
			return (row?.roles ?? '').split(' ').filter((role) => role !== '');
		},
	};
}
