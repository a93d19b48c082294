import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { describe, expect, onTestFinished } from 'vitest';
import { type RoleUser, roles, urlAs } from './roles.js';

// docs/who-may-what.md has the rights on each table, as tests/system/who-may-what.test.ts observes them.

describe('what each can’t do is refused by the server', () => {
	test.each<[RoleUser, string]>([
		['personal-contacts', 'select * from company_contacts'],
		['personal-contacts', 'delete from direct_subscriptions'],
		['personal-contacts', "insert into api_keys (project_id, hash) values (1, sha256('x'))"],
		['personal-contacts', 'update projects set disabled_at = null'],
		['personal-contacts', 'update key_ring_version set version = 0'],
		['personal-contacts', 'create role mine'],
		['company-contacts', 'select * from personal_contacts'],
		['company-contacts', 'insert into company_contacts (bitrix_id) values (1)'],
		['company-contacts', 'update company_contacts_version set epoch = gen_random_uuid()'],
		['company-contacts', 'select prune_company_contacts_tombstones()'],
		['company-contacts', "select record_operation('person erased', '{}')"],
		['company-contacts', 'create table mine (id int)'],
		['crm-sync', 'delete from company_contacts_changes'],
		['crm-sync', 'select begin_company_contacts_epoch()'],
		['crm-sync', 'select * from api_keys'],
		['crm-sync', 'select * from personal_contacts'],
		['operator', 'select * from personal_contacts'],
		['operator', 'select erase_company_contacts(array[1::bigint])'],
		['operator', "update projects set code = 'x', disabled_at = now()"],
		['operator', "update api_keys set hash = sha256('x'), expires_at = now()"],
		['operator', 'delete from audit_log'],
		['operator', "insert into audit_log (action) values ('key revoked')"],
		['operator', "update audit_log set actor = 'x'"],
		['operator', 'alter table audit_log disable trigger all'],
		['operator', 'drop table projects'],
		['privacy', 'update personal_contacts set name = null'],
		['privacy', 'delete from company_contacts'],
		['privacy', 'select * from api_keys'],
		['backup', 'delete from audit_log'],
		['backup', "select setval('projects_id_seq', 1)"],
	])('%s: %s', async (user, statement) => {
		const sql = postgres(urlAs(database.url, user, rolePassword), { max: 1, onnotice: () => undefined });
		onTestFinished(() => sql.end());
		await expect(sql.unsafe(statement)).rejects.toMatchObject({ code: '42501' });
	});
});

test('every role except the owner has only a login', async () => {
	const rows = await database.sql`
		select rolname from pg_roles
		where rolname in ${database.sql(Object.values(roles))}
		  and (rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls)`;
	expect([...rows]).toEqual([]);
});

test('a function that runs with its owner’s rights finds temporary objects last, and leaves no other search path to its caller', async () => {
	const rows = await database.sql<{ name: string; search_path: string | null }[]>`
		select oid::regprocedure::text as name,
		       (select setting from unnest(proconfig) setting where setting like 'search_path=%') as search_path
		from pg_proc where pronamespace = 'public'::regnamespace and prosecdef`;
	expect(rows.length).toBeGreaterThan(5);
	expect(rows.filter((row) => !/^search_path=(.*, ?)?pg_temp$/.test(row.search_path ?? ''))).toEqual([]);
});
