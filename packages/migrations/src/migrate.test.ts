import { readdirSync } from 'node:fs';
import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { readRights } from '@contacts/testing/rights.sql.js';
import postgres from 'postgres';
import { describe, expect, onTestFinished, test } from 'vitest';
import { migrate } from './migrate.js';
import { roles } from './roles.js';

/** What `migrate` returns for all files in the folder: `1.projects-and-api-keys` for `001.do.projects-and-api-keys.sql`. */
const all = readdirSync(new URL('../schema', import.meta.url))
	.sort()
	.map((file) => file.replace(/^0*(\d+)\.do\.(.+)\.sql$/, '$1.$2'));

async function emptyDatabase(encoding?: string): Promise<TestDatabase> {
	const database = await createTestDatabase('template0', encoding);
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
});

test('every run sets all rights, which a restored dump lacks, removes all others, and changes nothing else', async () => {
	const database = await emptyDatabase();
	await migrate(database.url);
	const rights = async () => [
		...(await readRights(database.sql, Object.values(roles))),
		...(await database.sql`
			select n.nspacl::text as schema, has_database_privilege('public', current_database(), 'temporary') as temporary,
			       (select json_agg(proacl::text order by proname) from pg_proc where pronamespace = n.oid) as functions
			from pg_namespace n where nspname = 'public'`),
	];
	const before = await rights();
	await database.sql.unsafe(`
		do $$ begin execute format('grant temporary on database %I to public', current_database()); end $$;
		revoke all on all tables in schema public from ${Object.values(roles).join()};
		revoke all on all sequences in schema public from ${Object.values(roles).join()};
		revoke all on all functions in schema public from ${Object.values(roles).join()};
		grant execute on all functions in schema public to public;
		grant create on schema public to public;
		grant delete on company_contacts to company_contacts_service;
		grant update (code) on projects to contacts_operator;
		grant usage on sequence projects_id_seq to contacts_operator;
		grant execute on function erase_company_contacts to contacts_operator;
		revoke usage on schema public from ${Object.values(roles).join()}`);
	expect(await rights()).not.toEqual(before);
	const [{ epoch }] = await database.sql<[{ epoch: string }]>`select epoch from company_contacts_version`;
	expect(await migrate(database.url)).toEqual([]);
	expect(await rights()).toEqual(before);
	expect((await database.sql`select epoch from company_contacts_version`)[0]).toEqual({ epoch });
});

describe('a failure leaves the schema unchanged and a later run succeeds:', () => {
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
		await migrate(database.url, 1);
		const before = await objects(database);
		const reader = await database.sql.reserve();
		await reader`begin`;
		await reader`lock table projects in share row exclusive mode`;
		await expect(migrate(database.url)).rejects.toThrow(
			/^A transaction has held a table for more than 2 seconds, so nothing was changed: run it again/,
		);
		expect(await objects(database)).toEqual(before);
		await reader`commit`;
		reader.release();
		expect(await migrate(database.url)).toEqual(all.slice(1));
	});
});

describe('while another session holds the lock', () => {
	async function held(): Promise<{ database: TestDatabase; holder: RegExp; release(): Promise<void> }> {
		const database = await emptyDatabase();
		const other = postgres(database.url, { max: 1, connection: { application_name: 'a forgotten shell' } });
		const [{ pid }] = await other<[{ pid: number }]>`select pg_backend_pid() as pid, pg_advisory_lock(4021967233)`;
		const holder = new RegExp(`"a forgotten shell" \\(user postgres, process ${pid}\\)`);
		return { database, holder, release: () => other.end() };
	}

	test('a run names that session, and continues as soon as the lock is free', async () => {
		const { database, holder, release } = await held();
		const messages: string[] = [];
		const running = migrate(database.url, undefined, { onWaiting: (message) => messages.push(message) });
		await expect.poll(() => messages).toEqual([expect.stringMatching(holder)]);
		await expect.poll(() => migrating(database, 'advisory')).toHaveLength(1);
		await release();
		expect(await running).toEqual(all);
		expect(messages).toHaveLength(1);
	});

	test('a run gives up when its time is over, names that session, and leaves the database unchanged', async () => {
		const { database, holder, release } = await held();
		await expect(migrate(database.url, undefined, { lockTimeoutMs: 100 })).rejects.toThrow(holder);
		expect(await objects(database)).toEqual([]);
		await release();
		expect(await migrate(database.url)).toEqual(all);
	});
});

test('a database in another encoding than UTF-8 is rejected and stays unchanged', async () => {
	const database = await emptyDatabase('LATIN1');
	await expect(migrate(database.url)).rejects.toThrow('has the encoding LATIN1, but it must be UTF8');
	expect(await objects(database)).toEqual([]);
});

describe('beside other programs', () => {
	test('a table of their migrations is rejected and stays unchanged', async () => {
		const database = await emptyDatabase();
		await database.sql.unsafe(`
			create table schema_migrations (version bigint primary key, dirty boolean);
			insert into schema_migrations values (5, false)`);
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

describe('a mirror of an earlier build goes on:', () => {
	/** A mirror as the fourth migration has it, with this state, after the newest one. */
	async function upgraded(state: string) {
		const database = await emptyDatabase();
		await migrate(database.url, 4);
		await database.sql`insert into crm_sync_runs (kind, outcome) values ('full', 'incomplete'), ('incremental', 'done')`;
		await database.sql`insert into crm_sync_staging (bitrix_id, state) values (1, 'listed'), (2, 'contradictory'), (3, 'unread')`;
		await database.sql.unsafe(`update crm_sync_state set ${state}`);
		await migrate(database.url);
		const [after] = await database.sql`
			select held_run::int, held_deletions::int, held_emptied::int, unread_contacts::int, full_cursor::int from crm_sync_state`;
		const staged = await database.sql`select state from crm_sync_staging order by bitrix_id`;
		expect(staged.map((row) => row.state)).toEqual(['listed', 'listed', 'unread']);
		return after;
	}
	const idle = { held_run: null, held_deletions: null, held_emptied: null, unread_contacts: 0, full_cursor: null };

	test.each([
		['idle', 'last_success_at = now(), contradictory_contacts = 3', idle],
		['in the middle of a full run', 'full_begun_at = now(), full_cursor = 3', { ...idle, full_cursor: 3 }],
		[
			'with deletions on hold',
			'held_run = 7, held_deletions = 30',
			{ ...idle, held_run: 7, held_deletions: 30, held_emptied: 0 },
		],
		[
			'with contacts that were not believed, which are held',
			'contradictory_contacts = 21, unread_contacts = 23',
			{ ...idle, held_run: 1, held_deletions: 0, held_emptied: 21, unread_contacts: 2 },
		],
		[
			'with both',
			'contradictory_contacts = 21, unread_contacts = 21, held_run = 7, held_deletions = 30',
			{ ...idle, held_run: 7, held_deletions: 30, held_emptied: 21 },
		],
	])('%s', async (_, state, after) => {
		expect(await upgraded(state)).toEqual(after);
	});
});
