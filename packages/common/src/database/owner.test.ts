import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type LocalPostgres, startLocalPostgres } from '@contacts/local-postgres/server.js';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Sql } from './client.js';
import { migrate } from './migrate.js';
import { ownerRole, roles, setRolePasswords, transferToOwner, urlAs } from './roles.js';

let folder: string;
/** A separate server, because roles belong to the whole server. */
let server: LocalPostgres;

beforeAll(async () => {
	folder = await mkdtemp(join(tmpdir(), 'contacts-owner-'));
	const settings = { fsync: 'off' };
	server = await startLocalPostgres({ dataDirectory: join(folder, 'postgres'), password: 'test', settings });
});
afterAll(async () => {
	await server?.stop();
	if (folder) await rm(folder, { recursive: true, force: true });
});

function connect(url: string): Sql {
	const sql: Sql = postgres(url, { max: 1, fetch_types: false, onnotice: () => undefined });
	onTestFinished(() => sql.end());
	return sql;
}

/** A new database, as the superuser. */
async function createDatabase(name: string): Promise<{ url: string; sql: Sql }> {
	await connect(server.url('postgres')).unsafe(`create database ${name}`);
	const url = server.url(name);
	return { url, sql: connect(url) };
}

/** Who owns the database and what is in its schema. */
async function ownersOf(sql: Sql): Promise<string[]> {
	const rows = await sql<{ owner: string }[]>`
		select datdba::regrole::text as owner from pg_database where datname = current_database()
		union select relowner::regrole::text from pg_class where relnamespace = 'public'::regnamespace
		union select proowner::regrole::text from pg_proc where pronamespace = 'public'::regnamespace
		union select typowner::regrole::text from pg_type where typnamespace = 'public'::regnamespace`;
	return rows.map(({ owner }) => owner);
}

/** What everybody may create in the database and in its schema. */
async function openToAll(sql: Sql): Promise<string[]> {
	const rows = await sql<{ what: string }[]>`
		select 'temporary' as what where has_database_privilege('public', current_database(), 'temporary')
		union all select 'create' where has_schema_privilege('public', 'public', 'create')`;
	return rows.map(({ what }) => what);
}

describe('the owner without superuser rights', () => {
	test('migrates a new database, which belongs to it alone, and sets the passwords of the roles', async () => {
		const { url, sql } = await createDatabase('fresh');
		await sql`grant create on schema public to public`;
		const owner = await transferToOwner(url, 'owner');
		await migrate(owner);
		await setRolePasswords(owner, { 'company-contacts': 'role' });
		expect(await ownersOf(sql)).toEqual([ownerRole]);
		expect(await openToAll(sql)).toEqual([]);
		const [role] = await sql`
			select rolsuper, rolcreatedb, rolreplication, rolbypassrls from pg_roles where rolname = ${ownerRole}`;
		expect(role).toEqual({ rolsuper: false, rolcreatedb: false, rolreplication: false, rolbypassrls: false });
		const asService = connect(urlAs(url, 'company-contacts', 'role'));
		expect([...(await asService`select code from projects`)]).toEqual([]);
	});

	test('takes over a database that a superuser has made and used, with all its objects, and migrates it', async () => {
		const { url, sql } = await createDatabase('used');
		// As pg_upgrade leaves it behind for databases from before PostgreSQL 15.
		await sql`alter schema public owner to postgres`;
		await migrate(url, 7);
		await sql`insert into projects (code) values ('kept')`;
		expect(await ownersOf(sql)).toEqual(['postgres']);

		const owner = await transferToOwner(url, 'first');
		await migrate(owner);
		await setRolePasswords(owner, { operator: 'role' });
		expect(await ownersOf(sql)).toEqual([ownerRole]);
		expect(await openToAll(sql)).toEqual([]);
		const asOperator = connect(urlAs(url, 'operator', 'role'));
		await asOperator`update projects set disabled_at = now() where code = 'kept'`;
		const rows = await connect(owner)`select action, role from audit_log order by id`;
		expect([...rows]).toEqual([
			{ action: 'project created', role: 'postgres' },
			{ action: 'project disabled', role: roles.operator },
		]);
	});

	test('keeps everything but its password when the script and the migration run again', async () => {
		const { url, sql } = await createDatabase('again');
		await migrate(await transferToOwner(url, 'first'));
		const before =
			await sql`select oid, relacl::text from pg_class where relnamespace = 'public'::regnamespace order by 1`;
		const owner = await transferToOwner(url, 'second');
		expect(await migrate(owner)).toEqual([]);
		expect(
			await sql`select oid, relacl::text from pg_class where relnamespace = 'public'::regnamespace order by 1`,
		).toEqual(before);
		expect(await ownersOf(sql)).toEqual([ownerRole]);
	});
});

test('a role that may create tables, but owns neither database nor schema, migrates and keeps rights that it can’t revoke', async () => {
	const { url, sql } = await createDatabase('borrowed');
	// The roles of the services belong to the server: another database has them already.
	await migrate((await createDatabase('first')).url);
	await sql.unsafe(`
		create role tenant login createrole password 'test';
		grant ${Object.values(roles).join(', ')} to tenant with admin option;
		grant create on schema public to tenant, public;`);
	await migrate(Object.assign(new URL(url), { username: 'tenant' }).href);
	expect(await openToAll(sql)).toEqual(['temporary', 'create']);
});
