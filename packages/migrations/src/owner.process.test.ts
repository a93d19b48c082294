import { join } from 'node:path';
import type { Sql } from '@contacts/common/database/client.js';
import { type LocalPostgres, startLocalPostgres } from '@contacts/local-postgres/local-postgres.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { migrate } from './migrate.js';
import { ownerRole, roles, setUpRoles, urlAs } from './roles.js';

const folder = sharedFolder();
/** A separate server, because roles belong to the whole server. */
let server: LocalPostgres;

beforeAll(async () => {
	const dataDirectory = join(folder, 'postgres');
	server = await startLocalPostgres({ dataDirectory, password: 'test', settings: { fsync: 'off' } });
});
afterAll(() => server?.stop());

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

test('a migration before the roles exist changes nothing, and says what to run', async () => {
	const { url, sql } = await createDatabase('bare');
	await expect(migrate(url)).rejects.toThrow(
		/^Roles are missing \(personal_contacts_service, .*"contacts migrate --roles"[^\n]*$/,
	);
	expect([...(await sql`select from pg_class where relnamespace = 'public'::regnamespace`)]).toEqual([]);
	await setUpRoles(url, {});
	expect(await migrate(url)).not.toEqual([]);
});

test.each(['a new database', 'a database that a superuser has made and used'])(
	'a migration with roles creates these, and everything belongs to the owner: in %s',
	async (which) => {
		const { url, sql } = await createDatabase(which === 'a new database' ? 'roles_new' : 'roles_used');
		if (which !== 'a new database') {
			await setUpRoles(url, {});
			await migrate(url, 3);
			await sql`insert into projects (code) values ('kept')`;
		}
		expect(await migrate(url, undefined, { withRoles: true })).not.toEqual([]);
		expect(await ownersOf(sql)).toEqual([ownerRole]);
		expect(await openToAll(sql)).toEqual([]);
		const names = await sql`select from pg_roles where rolname in ${sql(Object.values(roles))}`;
		expect(names).toHaveLength(Object.values(roles).length);
		expect(await migrate(url, undefined, { withRoles: true })).toEqual([]);
	},
);

describe('the owner without superuser rights', () => {
	test('migrates a new database, which belongs to it alone, for roles that the superuser has created', async () => {
		const { url, sql } = await createDatabase('fresh');
		await sql`grant create on schema public to public`;
		await setUpRoles(url, { owner: 'owner', 'company-contacts': 'role' });
		await migrate(urlAs(url, 'owner', 'owner'));
		expect(await ownersOf(sql)).toEqual([ownerRole]);
		expect(await openToAll(sql)).toEqual([]);
		// Large objects fill the disk, and an advisory lock stops the program that waits for it.
		const harmful = await sql`
			select proname from pg_proc
			where proname ~ '^lo_(creat|from_bytea)|_advisory_' and has_function_privilege(${roles.privacy}, oid, 'execute')`;
		expect([...harmful]).toEqual([]);
		const asService = connect(urlAs(url, 'company-contacts', 'role'));
		expect([...(await asService`select code from projects`)]).toEqual([]);
	});

	test('takes over a database that a superuser has made and used, with all its objects, and migrates it', async () => {
		const { url, sql } = await createDatabase('used');
		// As pg_upgrade leaves it behind for databases from before PostgreSQL 15.
		await sql`alter schema public owner to postgres`;
		await migrate(url, 3);
		await sql`insert into projects (code) values ('kept')`;
		expect(await ownersOf(sql)).toEqual(['postgres']);

		await setUpRoles(url, { owner: 'first', operator: 'role' });
		const owner = urlAs(url, 'owner', 'first');
		await migrate(owner);
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
		await setUpRoles(url, { owner: 'first' });
		await migrate(urlAs(url, 'owner', 'first'));
		await sql`alter role contacts_operator connection limit 3`;
		const state = async () => [
			...(await sql`select oid, relacl::text from pg_class where relnamespace = 'public'::regnamespace order by 1`),
			...(await sql`select rolname, rolconnlimit from pg_roles order by 1`),
			...(await sql`select oid::regprocedure::text, proacl::text from pg_proc where proname ~ '^(lo_|pg_.*advisory)' order by 1`),
		];
		const before = await state();
		await setUpRoles(url, { owner: 'second' });
		expect(await migrate(urlAs(url, 'owner', 'second'))).toEqual([]);
		expect(await state()).toEqual(before);
		expect(await ownersOf(sql)).toEqual([ownerRole]);
	});
});

test('a role that may create tables, but owns neither database nor schema, migrates and keeps rights that it can’t revoke', async () => {
	const { url, sql } = await createDatabase('borrowed');
	await sql.unsafe(`
		create role tenant login password 'test';
		grant create on schema public to tenant, public;`);
	await migrate(Object.assign(new URL(url), { username: 'tenant' }).href);
	expect(await openToAll(sql)).toEqual(['temporary', 'create']);
});

test('the server notices within half a minute that a client of any role has left the network, unless an operator has set another time', async () => {
	const { url, sql } = await createDatabase('keepalive');
	const users = [...(Object.keys(roles) as (keyof typeof roles)[]), 'owner'] as const;
	await setUpRoles(url, Object.fromEntries(users.map((user) => [user, 'role'])));
	/** Those of the session's socket, in seconds and in milliseconds. */
	const settingsOf = async (user: (typeof users)[number]) => {
		const [row] = await connect(urlAs(url, user, 'role'))`
			select current_setting('tcp_keepalives_idle') as idle, current_setting('tcp_keepalives_interval') as interval,
				current_setting('tcp_keepalives_count') as count, current_setting('tcp_user_timeout') as unacknowledged`;
		return row;
	};
	const settings = { idle: '15', interval: '5', count: '3', unacknowledged: '30000' };
	for (const user of users) expect(await settingsOf(user), user).toEqual(settings);
	await sql`alter role contacts_operator set tcp_keepalives_idle to 60`;
	await setUpRoles(url, {});
	expect(await settingsOf('operator')).toEqual({ ...settings, idle: '60' });
	await sql`alter role contacts_operator reset tcp_keepalives_idle`;
});

test('a role at its connection limit leaves the other roles theirs', async () => {
	const { url } = await createDatabase('crowded');
	await setUpRoles(url, { 'personal-contacts': 'role', privacy: 'role', operator: 'role' });
	const open = async (user: keyof typeof roles) => void (await connect(urlAs(url, user, 'role'))`select 1`);
	for (let opened = 0; opened < 2; opened++) await open('privacy');
	await expect(open('privacy')).rejects.toMatchObject({ code: '53300' });
	await open('personal-contacts');
	await open('operator');
});
