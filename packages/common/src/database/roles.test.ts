import { rolePassword } from '@contacts/testing/database.js';
import { database, testOn } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { afterAll, describe, expect } from 'vitest';
import type { Sql } from './client.js';
import { errorCode } from './errors.js';
import { migrate } from './migrate.js';
import { readRights } from './rights.sql.js';
import { type RoleUser, roles, urlAs } from './roles.js';

const connections = new Map<RoleUser, Sql>();

// Migrates a new database instead of copying the template, because a copy lacks the rights on the database itself.
const test = testOn('template0');
test.beforeAll(async () => {
	await migrate(database.url);
	for (const user of Object.keys(roles) as RoleUser[]) {
		connections.set(user, postgres(urlAs(database.url, user, rolePassword), { max: 1, onnotice: () => undefined }));
	}
});
afterAll(() => Promise.all([...connections.values()].map((sql) => sql.end())));

/** The complete list of who may do what with which table or sequence. */
const rights: Record<RoleUser, Record<string, readonly string[]>> = {
	'personal-contacts': {
		projects: ['select'],
		api_keys: ['select'],
		key_ring_version: ['select'],
		api_key_uses: ['select', 'insert', 'update'],
		personal_contacts: ['select', 'insert', 'update'],
		direct_subscriptions: ['select', 'insert', 'update'],
	},
	'company-contacts': {
		projects: ['select'],
		api_keys: ['select'],
		key_ring_version: ['select'],
		api_key_uses: ['select', 'insert', 'update'],
		company_contacts: ['select'],
		company_contacts_changes: ['select'],
		company_contacts_version: ['select'],
		crm_sync_state: ['select (last_success_at)'],
	},
	'crm-sync': {
		company_contacts: ['select', 'insert', 'update', 'delete'],
		crm_event_inbox: ['select', 'insert', 'update', 'delete'],
		crm_sync_runs: ['select', 'insert', 'update', 'delete'],
		crm_sync_staging: ['select', 'insert', 'update', 'delete'],
		crm_sync_state: ['select', 'update'],
		'function prune_company_contacts_tombstones': ['execute'],
	},
	operator: {
		projects: ['select', 'insert', 'update (disabled_at)'],
		api_keys: ['select', 'insert', 'update (expires_at)', 'update (revoked_at)'],
		direct_subscriptions: ['select', 'insert', 'update'],
		company_contacts: ['select', 'insert', 'update', 'delete'],
		api_key_uses: ['select'],
		crm_event_inbox: ['select', 'insert', 'update', 'delete'],
		crm_sync_runs: ['select', 'insert', 'update', 'delete'],
		crm_sync_staging: ['select', 'insert', 'update', 'delete'],
		crm_sync_state: ['select', 'update'],
		'function prune_company_contacts_tombstones': ['execute'],
		audit_log: ['select'],
		key_ring_version: ['select'],
		schema_migrations: ['select'],
		'function record_operation': ['execute'],
	},
	privacy: {
		personal_contacts: ['select', 'delete'],
		direct_subscriptions: ['select', 'delete'],
		company_contacts: ['select'],
		projects: ['select (code)', 'select (id)'],
		'function erase_company_contacts': ['execute'],
		'function record_operation': ['execute'],
	},
	backup: Object.fromEntries(
		[
			...['projects', 'api_keys', 'api_key_uses', 'key_ring_version', 'audit_log', 'schema_migrations'],
			...['personal_contacts', 'direct_subscriptions'],
			...['company_contacts', 'company_contacts_version', 'company_contacts_changes'],
			...['crm_sync_state', 'crm_sync_staging', 'crm_sync_runs', 'crm_event_inbox'],
			...['projects_id_seq', 'api_keys_id_seq', 'audit_log_id_seq', 'company_contacts_id_seq'],
			'crm_sync_runs_id_seq',
		].map((name) => [name, ['select']]),
	),
};

test.each(Object.keys(roles) as RoleUser[])(
	'%s has exactly these rights on exactly these tables, sequences and functions',
	async (user) => {
		const rows = await readRights(database.sql, [roles[user]]);
		expect(Object.fromEntries(rows.map((row) => [row.table, row.rights]))).toEqual(rights[user]);
	},
);

describe('what each can’t do is refused by the server', () => {
	test.each<[RoleUser, string]>([
		['personal-contacts', 'select * from company_contacts'],
		['personal-contacts', 'delete from personal_contacts'],
		['personal-contacts', 'delete from direct_subscriptions'],
		['operator', 'delete from direct_subscriptions'],
		['personal-contacts', "insert into api_keys (project_id, hash) values (1, sha256('x'))"],
		['personal-contacts', 'update api_keys set revoked_at = null'],
		['personal-contacts', 'update projects set disabled_at = null'],
		['personal-contacts', 'update key_ring_version set version = 0'],
		['personal-contacts', 'select * from audit_log'],
		['company-contacts', 'select * from personal_contacts'],
		['company-contacts', 'select * from direct_subscriptions'],
		['company-contacts', 'insert into company_contacts (bitrix_id) values (1)'],
		['company-contacts', "insert into projects (code) values ('x')"],
		['company-contacts', "insert into api_keys (project_id, hash) values (1, sha256('x'))"],
		['company-contacts', 'delete from api_keys'],
		['company-contacts', 'update company_contacts_version set epoch = gen_random_uuid()'],
		['company-contacts', 'select prune_company_contacts_tombstones()'],
		['crm-sync', 'select * from company_contacts_changes'],
		['crm-sync', 'delete from company_contacts_changes'],
		['crm-sync', 'update company_contacts_version set version = 0'],
		['crm-sync', 'select begin_company_contacts_epoch()'],
		['crm-sync', 'select * from api_keys'],
		['crm-sync', 'select * from personal_contacts'],
		['company-contacts', 'update crm_sync_state set watermark = null'],
		['company-contacts', 'select * from crm_sync_runs'],
		['crm-sync', 'truncate crm_sync_staging'],
		['operator', 'select * from personal_contacts'],
		['privacy', 'update personal_contacts set name = null'],
		['privacy', 'insert into direct_subscriptions (chat_id) values (1)'],
		['privacy', 'delete from company_contacts'],
		['privacy', 'select * from api_keys'],
		['privacy', 'select created_at from projects'],
		['privacy', 'select * from audit_log'],
		['backup', "insert into projects (code) values ('x')"],
		['backup', 'update api_keys set revoked_at = null'],
		['backup', 'delete from audit_log'],
		['backup', 'truncate personal_contacts'],
		['backup', "select setval('projects_id_seq', 1)"],
		['backup', "select nextval('audit_log_id_seq')"],
		['backup', "select record_operation('person erased', '{}')"],
		['backup', 'select begin_company_contacts_epoch()'],
		['company-contacts', "select record_operation('person erased', '{}')"],
		['operator', 'select erase_company_contacts(array[1::bigint])'],
		['operator', "update projects set code = 'x', disabled_at = now()"],
		['operator', "update api_keys set hash = sha256('x'), expires_at = now()"],
		['operator', 'update api_keys set service = null'],
		['operator', 'update api_keys set project_id = 1'],
		['operator', 'delete from api_keys'],
		['operator', 'delete from audit_log'],
		['operator', "insert into audit_log (actor, role, action, project) values ('x', 'x', 'x', 'x')"],
		['operator', "update audit_log set actor = 'x'"],
		['operator', 'drop table projects'],
		['operator', 'alter table audit_log disable trigger all'],
		['operator', 'create table mine (id int)'],
		['company-contacts', 'create table mine (id int)'],
		['personal-contacts', 'create role mine'],
	])('%s: %s', async (user, statement) => {
		const attempt = connections.get(user)?.unsafe(statement);
		await expect(attempt).rejects.toSatisfy((error) => errorCode(error) === '42501');
	});
});

test('every role except the owner has only a login', async () => {
	const rows = await database.sql`
		select rolname from pg_roles
		where rolname in ${database.sql(Object.values(roles))}
		  and (rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls)`;
	expect([...rows]).toEqual([]);
});

describe('temporary objects, which PostgreSQL finds before those of the schema', () => {
	test.each(Object.keys(roles) as RoleUser[])('%s can’t create any', async (user) => {
		for (const statement of [
			'create temporary table audit_log (id bigint)',
			'create temporary view projects as select 1 as id',
			'create temporary sequence ids',
			'create domain pg_temp.text as pg_catalog.text',
			'create function pg_temp.now() returns int language sql as $$ select 1 $$',
		]) {
			const attempt = connections.get(user)?.unsafe(statement);
			await expect(attempt, statement).rejects.toSatisfy((error) => errorCode(error) === '42501');
		}
	});
});

test('a function that runs with its owner’s rights finds temporary objects last, and leaves no other search path to its caller', async () => {
	const rows = await database.sql<{ name: string; search_path: string | null }[]>`
		select oid::regprocedure::text as name,
		       (select setting from unnest(proconfig) setting where setting like 'search_path=%') as search_path
		from pg_proc where pronamespace = 'public'::regnamespace and prosecdef`;
	expect(rows.length).toBeGreaterThan(5);
	expect(rows.filter((row) => !/^search_path=(.*, ?)?pg_temp$/.test(row.search_path ?? ''))).toEqual([]);
});
