import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { describe, expect, onTestFinished } from 'vitest';
import { type RoleUser, roles, urlAs } from './roles.js';

// Temporary objects are found before those of the schema. No role may create any, unless somebody grants it again.
test.beforeAll(async () => {
	await database.sql.unsafe(`grant temporary on database ${new URL(database.url).pathname.slice(1)} to public`);
	await database.sql`insert into projects (code) values ('there')`;
	await database.sql`insert into api_keys (project_id, hash) select id, sha256('there') from projects`;
});

/** Writes that each role may do and that run functions of the schema. */
const writes: Record<RoleUser, string[]> = {
	'personal-contacts': [
		'insert into public.api_key_uses (key_id, last_used_at) select id, now() from public.api_keys',
		'insert into public.personal_contacts (chat_id, project_id) select 1, id from public.projects',
		'insert into public.direct_subscriptions (chat_id) values (1)',
	],
	'company-contacts': [
		'insert into public.api_key_uses as stored (key_id, last_used_at) select id, now() from public.api_keys on conflict (key_id) do update set last_used_at = now()',
	],
	'crm-sync': [
		'insert into public.company_contacts (bitrix_id) values (2)',
		'update public.company_contacts set bitrix_id = 3 where bitrix_id = 2',
		'delete from public.company_contacts where bitrix_id = 3',
		"update public.crm_sync_state set configuration = '{}'",
		`update public.crm_sync_state set configuration = '{"portal":"another"}'`,
		'select public.prune_company_contacts_tombstones()',
	],
	operator: [
		"insert into public.projects (code) values ('attacked')",
		"insert into public.api_keys (project_id, hash) select id, sha256('attacked') from public.projects where code = 'attacked'",
		"update public.api_keys set expires_at = now() + interval '1 day' where hash = sha256('attacked')",
		"update public.api_keys set revoked_at = now() where hash = sha256('attacked')",
		"update public.projects set disabled_at = now() where code = 'attacked'",
		'insert into public.company_contacts (bitrix_id) values (1)',
	],
	privacy: [
		'delete from public.personal_contacts where chat_id = 2',
		'select public.erase_company_contacts(array[1::bigint])',
		"select public.record_operation('person erased', '{}')",
	],
	// It can only read.
	backup: ['select from public.company_contacts'],
};

/**
 * Opens a session of a role that shadows every table of the schema, and the types in functions, with a temporary trap object.
 * Code that refers to them without a schema finds the trap, and runs it with its own rights.
 */
async function openTrapped(user: RoleUser) {
	const tables = await database.sql<{ name: string; columns: string }[]>`
		select c.relname as name,
		       string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum) as columns
		from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
		where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' group by 1`;
	const sql = postgres(urlAs(database.url, user, rolePassword), { max: 1, onnotice: () => undefined });
	onTestFinished(() => sql.end());
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
	/** The roles that have run the code of this session's traps. */
	const sprungAs = async () => {
		const [row] = await sql<{ roles: string }[]>`select current_setting('trap.sprung_as', true) as roles`;
		return (row?.roles ?? '').split(' ').filter((role) => role !== '');
	};
	return { sql, sprungAs };
}

describe('where somebody has granted TEMPORARY again', () => {
	test.each(Object.keys(roles) as RoleUser[])('nothing of %s runs with the rights of the owner', async (user) => {
		const { sql, sprungAs } = await openTrapped(user);
		for (const statement of writes[user]) await sql.unsafe(statement);
		expect((await sprungAs()).filter((role) => role !== roles[user])).toEqual([]);
	});

	test('every change of the operator is recorded and announced', async () => {
		const version = async () => {
			const [row] = await database.sql<{ version: number }[]>`select version::float8 as version from key_ring_version`;
			return row?.version ?? Number.NaN;
		};
		const { sql } = await openTrapped('operator');
		await sql`insert into public.projects (code) values ('watched')`;
		const before = await version();
		await sql`update public.projects set disabled_at = now() where code = 'watched'`;
		expect(await version()).toBe(before + 1);
		const rows = await database.sql`select action from audit_log where project = 'watched' order by id`;
		expect(rows.map(({ action }) => action)).toEqual(['project created', 'project disabled']);
	});
});
