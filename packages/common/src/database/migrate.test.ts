import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { describe, expect, onTestFinished, test } from 'vitest';
import { migrate } from './migrate.js';

/** What `migrate` returns for all files in the folder: `1.projects-and-api-keys` for `001.do.projects-and-api-keys.sql`. */
const all = readdirSync(new URL('../../migrations', import.meta.url))
	.sort()
	.map((file) => file.replace(/^0*(\d+)\.do\.(.+)\.sql$/, '$1.$2'));

async function emptyDatabase(): Promise<TestDatabase> {
	const database = await createTestDatabase('template0');
	onTestFinished(() => database.drop());
	return database;
}

/** Everything that a migration could have left behind. */
const objects = async ({ sql }: TestDatabase) => {
	const rows = await sql<{ name: string }[]>`
		select relname as name from pg_class where relnamespace = 'public'::regnamespace
		union all select proname from pg_proc where pronamespace = 'public'::regnamespace
		order by name`;
	return rows.map(({ name }) => name);
};
/** The migrations that are recorded, in the order in which they ran. */
const recorded = async ({ sql }: TestDatabase) => {
	const rows = await sql<{ migration: string }[]>`
		select version || '.' || name as migration from schema_migrations where version > 0 order by version`;
	return rows.map(({ migration }) => migration);
};
const migrating = ({ sql }: TestDatabase, waitEvent: string) => sql<{ pid: number }[]>`
	select pid from pg_stat_activity
	where datname = current_database() and application_name = 'contacts migrate' and wait_event = ${waitEvent}`;

describe('on an empty database', () => {
	test('applies every migration, in order; a second run applies none and changes nothing', async () => {
		const database = await emptyDatabase();
		expect(await migrate(database.url)).toEqual(all);
		expect(await recorded(database)).toEqual(all);
		const before = await objects(database);
		expect(before).toEqual(expect.arrayContaining(['api_keys', 'company_contacts', 'personal_contacts', 'projects']));
		expect(await migrate(database.url)).toEqual([]);
		expect(await objects(database)).toEqual(before);
	});

	test('four concurrent runs succeed, and only one of them applies each migration', async () => {
		const database = await emptyDatabase();
		const applied = await Promise.all([1, 2, 3, 4].map(() => migrate(database.url)));
		expect(applied.flat()).toEqual(all);
		expect(applied.filter((migrations) => migrations.length === 0)).toHaveLength(3);
		expect(await recorded(database)).toEqual(all);
	});

	test('two concurrent processes succeed, and one of them does the work', async () => {
		const database = await emptyDatabase();
		const module = new URL('../../dist/database/migrate.js', import.meta.url);
		const script = `import { migrate } from ${JSON.stringify(module)}; console.log(JSON.stringify(await migrate(process.env.URL)));`;
		const run = async () => {
			const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], {
				env: { URL: database.url },
				cwd: fileURLToPath(new URL('.', import.meta.url)),
			});
			return JSON.parse(stdout) as string[];
		};
		const applied = await Promise.all([run(), run()]);
		expect(applied.sort()).toEqual([[], all]);
		expect(await recorded(database)).toEqual(all);
	});
});

describe('a failure leaves the schema unchanged and a later run succeeds:', () => {
	test('the connection is killed while it waits for another migration', async () => {
		const database = await emptyDatabase();
		expect(await objects(database)).toEqual([]);
		const other = await database.sql.reserve();
		await other`select pg_advisory_lock(4021967233)`;
		const failed = expect(migrate(database.url)).rejects.toThrow();
		await expect.poll(() => migrating(database, 'advisory')).toHaveLength(1);
		for (const { pid } of await migrating(database, 'advisory'))
			await database.sql`select pg_terminate_backend(${pid})`;
		await failed;
		await other`select pg_advisory_unlock(4021967233)`;
		other.release();
		expect(await objects(database)).toEqual([]);
		expect(await migrate(database.url)).toEqual(all);
	});

	test('the connection is killed between two migrations', async () => {
		const database = await emptyDatabase();
		// This makes the next migration wait after several have been applied.
		await database.sql.unsafe(`
			create schema test;
			create function test.wait() returns event_trigger language plpgsql as $$
			begin
				if exists (select from pg_event_trigger_ddl_commands() where object_identity = 'public.company_contacts') then
					perform pg_sleep(60);
				end if;
			end $$;
			create event trigger wait on ddl_command_end when tag in ('CREATE TABLE') execute function test.wait()`);
		const failed = expect(migrate(database.url)).rejects.toThrow();
		await expect.poll(() => migrating(database, 'PgSleep')).toHaveLength(1);
		for (const { pid } of await migrating(database, 'PgSleep')) await database.sql`select pg_terminate_backend(${pid})`;
		await failed;
		expect(await objects(database)).toEqual([]);
		await database.sql`drop event trigger wait`;
		expect(await migrate(database.url)).toEqual(all);
	});

	test('a table that a migration changes is locked for longer than requests can wait', async () => {
		const database = await emptyDatabase();
		await migrate(database.url, 2);
		const before = await objects(database);
		const reader = await database.sql.reserve();
		await reader`begin`;
		await reader`lock table personal_contacts, projects, api_keys in access share mode`;
		await expect(migrate(database.url)).rejects.toThrow(
			/^A transaction has held a table for more than 2 seconds, so nothing was changed: run it again/,
		);
		expect(await objects(database)).toEqual(before);
		await reader`commit`;
		reader.release();
		expect(await migrate(database.url)).toEqual(all.slice(2));
	});

	test('a statement of a migration fails', async () => {
		const database = await emptyDatabase();
		await database.sql`create table company_contacts ()`;
		await expect(migrate(database.url)).rejects.toMatchObject({ code: '42P07' });
		expect(await objects(database)).toEqual(['company_contacts']);
		await database.sql`drop table company_contacts`;
		expect(await migrate(database.url)).toEqual(all);
	});
});

describe('beside other programs', () => {
	test.each([
		['Rails', `(version varchar primary key); insert into schema_migrations values ('20240101000000')`],
		['golang-migrate', '(version bigint primary key, dirty boolean); insert into schema_migrations values (5, false)'],
	])('a table of migrations of %s is rejected and stays unchanged', async (_, definition) => {
		const database = await emptyDatabase();
		await database.sql.unsafe(`create table schema_migrations ${definition}`);
		const before = await database.sql`table schema_migrations`;
		await expect(migrate(database.url)).rejects.toThrow(/^The table "schema_migrations" .* use another database\.$/);
		expect([...(await database.sql`table schema_migrations`)]).toEqual([...before]);
		expect(await objects(database)).not.toContain('projects');
	});

	test('a table of migrations in another schema does not count, nor does a schema with the name of the user', async () => {
		const database = await emptyDatabase();
		await database.sql.unsafe(`
			create schema auth;
			create table auth.schema_migrations (version varchar primary key);
			do $$ begin execute format('create schema %I', current_user); end $$`);
		expect(await migrate(database.url)).toEqual(all);
		expect(await recorded(database)).toEqual(all);
	});
});

test('a migration that was changed after it was applied is rejected', async () => {
	const database = await emptyDatabase();
	await migrate(database.url);
	await database.sql`update schema_migrations set md5 = 'other' where version = 2`;
	await expect(migrate(database.url)).rejects.toThrow(/\[2\]/);
});

test.each([
	['a wrong password', { password: 'wrong' }, '28P01'],
	['a database that does not exist', { pathname: '/no_such_database' }, '3D000'],
	['a port on which nothing listens', { port: '1' }, 'ECONNREFUSED'],
])('fails at once for %s', async (_, change, code) => {
	const { url } = await emptyDatabase();
	await expect(migrate(Object.assign(new URL(url), change).href)).rejects.toMatchObject({ code });
});
