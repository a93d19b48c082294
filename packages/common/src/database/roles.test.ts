import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase, rolePassword, type TestDatabase } from '../testing/database.js';
import type { Sql } from './client.js';
import { errorCode } from './errors.js';
import { type RoleUser, roles, urlAs } from './roles.js';

let database: TestDatabase;
const connections = new Map<RoleUser, Sql>();

beforeAll(async () => {
	database = await createTestDatabase();
	for (const user of Object.keys(roles) as RoleUser[]) {
		connections.set(user, postgres(urlAs(database.url, user, rolePassword), { max: 1, onnotice: () => undefined }));
	}
});
afterAll(async () => {
	await Promise.all([...connections.values()].map((sql) => sql.end()));
	await database?.drop();
});

const verbs = ['select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger'] as const;

/** Who may do what with which table, and nothing beside it. */
const rights: Record<RoleUser, Record<string, readonly (typeof verbs)[number][]>> = {
	'personal-contacts': {
		projects: ['select'],
		api_keys: ['select'],
		key_ring_version: ['select'],
		api_key_uses: ['select', 'insert', 'update'],
		personal_contacts: ['select', 'insert', 'update'],
		direct_subscriptions: ['select'],
	},
	'company-contacts': {
		projects: ['select'],
		api_keys: ['select'],
		key_ring_version: ['select'],
		api_key_uses: ['select', 'insert', 'update'],
		company_contacts: ['select'],
		crm_sync_state: ['select'],
	},
	'company-contacts-sync': {
		company_contacts: ['select', 'insert', 'update', 'delete'],
		crm_event_inbox: ['select', 'insert', 'update', 'delete'],
		crm_sync_runs: ['select', 'insert', 'update'],
		crm_sync_staging: ['select', 'insert', 'update', 'delete', 'truncate'],
		crm_sync_state: ['select', 'update'],
	},
	operator: {
		projects: ['select', 'insert', 'update'],
		api_keys: ['select', 'insert', 'update'],
		direct_subscriptions: ['select', 'insert', 'update'],
		company_contacts: ['select', 'insert', 'update', 'delete'],
		api_key_uses: ['select'],
		crm_event_inbox: ['select', 'insert', 'update', 'delete'],
		crm_sync_runs: ['select', 'insert', 'update'],
		crm_sync_staging: ['select', 'insert', 'update', 'delete', 'truncate'],
		crm_sync_state: ['select', 'update'],
		audit_log: ['select'],
		key_ring_version: ['select'],
		schema_migrations: ['select'],
	},
};

test.each(Object.keys(roles) as RoleUser[])('%s has exactly these rights on exactly these tables', async (user) => {
	const rows = await database.sql<{ name: string; verb: (typeof verbs)[number] }[]>`
		select c.relname as name, verb
		from pg_class c cross join unnest(string_to_array(${verbs.join()}, ',')) with ordinality as verbs (verb, place)
		where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v', 'm', 'p')
		  and has_table_privilege(${roles[user]}, c.oid, verb)
		order by c.relname, place`;
	const found: Record<string, string[]> = {};
	for (const { name, verb } of rows) found[name] = [...(found[name] ?? []), verb];
	expect(found).toEqual(rights[user]);
});

describe('what each can’t do is refused by the server', () => {
	test.each<[RoleUser, string]>([
		['personal-contacts', 'select * from company_contacts'],
		['personal-contacts', 'delete from personal_contacts'],
		['personal-contacts', 'insert into direct_subscriptions (chat_id) values (1)'],
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
		['company-contacts-sync', 'select * from api_keys'],
		['company-contacts-sync', 'select * from personal_contacts'],
		['company-contacts', 'update crm_sync_state set watermark = null'],
		['operator', 'select * from personal_contacts'],
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

test('no role but the owner has more than a login', async () => {
	const rows = await database.sql`
		select rolname from pg_roles
		where rolname in ${database.sql(Object.values(roles))}
		  and (rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls)`;
	expect([...rows]).toEqual([]);
});

describe('audit', () => {
	test('every change of a project or a key leaves a row with who, what and when', async () => {
		const operator = postgres(urlAs(database.url, 'operator', rolePassword), {
			max: 1,
			connection: { 'contacts.actor': 'alice@desk' } as never,
		});
		await operator`insert into projects (code) values ('audited')`;
		const [key] = await operator<{ id: number }[]>`
			insert into api_keys (project_id, hash, service)
			select id, sha256('k'), 'company-contacts' from projects where code = 'audited' returning id::int`;
		await operator`update api_keys set expires_at = now() + interval '1 day' where id = ${key?.id ?? 0}`;
		await operator`update api_keys set revoked_at = now() where id = ${key?.id ?? 0}`;
		await operator`update projects set disabled_at = now() where code = 'audited'`;
		await operator`update projects set disabled_at = null where code = 'audited'`;
		const rows = await operator`
			select actor, role, action, key_id::int, details ? 'service' as has_service, at > now() - interval '1 minute' as now
			from audit_log where project = 'audited' order by id`;
		await operator.end();
		const row = { actor: 'alice@desk', role: 'contacts_operator', key_id: key?.id, has_service: false, now: true };
		expect([...rows]).toEqual([
			{ ...row, action: 'project created', key_id: null },
			{ ...row, action: 'key created', has_service: true },
			{ ...row, action: 'key expiry changed' },
			{ ...row, action: 'key revoked' },
			{ ...row, action: 'project disabled', key_id: null },
			{ ...row, action: 'project enabled', key_id: null },
		]);
	});

	test('a change made by hand, without the command, names the database role', async () => {
		await database.sql`insert into projects (code) values ('by-hand')`;
		const [row] = await database.sql`select actor, role, action from audit_log where project = 'by-hand'`;
		expect(row).toEqual({ actor: 'postgres', role: 'postgres', action: 'project created' });
	});

	test('nothing of a key but its id is in the log', async () => {
		const rows =
			await database.sql`select * from audit_log where audit_log::text like '%' || encode(sha256('k'), 'hex') || '%'`;
		expect([...rows]).toEqual([]);
	});
});
