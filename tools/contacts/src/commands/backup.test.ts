import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { roles, urlAs } from '@contacts/common/database/roles.js';
import { service as companyContacts } from '@contacts/company-contacts/app.js';
import { service as personalContacts } from '@contacts/personal-contacts/app.js';
import { startTestApp, type TestApp } from '@contacts/testing/app.js';
import { createTestDatabase, rolePassword, type TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database as source, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished, vi } from 'vitest';
import { excludedTables } from '../backup/tables.sql.js';
import { fillDatabase, readEverything } from '../testing/backup.js';
import { contacts, expectOneLine, main, type Outcome } from '../testing/command.js';

let folder: string;
let file: string;

test.beforeAll(async () => {
	await fillDatabase(source.sql, 2500);
	folder = await mkdtemp(join(tmpdir(), 'contacts-backup-'));
	file = join(folder, 'contacts.backup');
	expect(await contacts(source.url, ['backup', file])).toMatchObject({ code: 0, stderr: '' });
});
afterAll(async () => {
	if (folder) await rm(folder, { recursive: true });
});

async function newDatabase(): Promise<TestDatabase> {
	const database = await createTestDatabase();
	onTestFinished(() => database.drop());
	return database;
}

async function start(
	database: TestDatabase,
	service: typeof companyContacts | typeof personalContacts,
): Promise<TestApp> {
	// Each app has its own variables, and the test sets none.
	const app = await startTestApp(service as typeof companyContacts, database.url);
	onTestFinished(() => app.close());
	return app;
}

describe('a restored copy', () => {
	test('is the same in every table, and assigns the same next IDs', async () => {
		const copy = await newDatabase();
		const outcome = await contacts(copy.url, ['restore', file]);
		expect(outcome).toMatchObject({ code: 0, stderr: '' });
		expect(outcome.stdout).toMatch(/^Restored \d{4} rows of 10 tables, as they were at 20\d\d-[\d-]+T[\d:.]+Z\.\n$/);
		const everything = await readEverything(source.sql);
		expect(await readEverything(copy.sql)).toEqual(everything);
		for (const rows of Object.values(everything)) expect(rows.length).toBeGreaterThan(0);
		const insert = 'insert into company_contacts (bitrix_id) values (4711) returning id::int';
		const [[there], [here]] = await Promise.all([source.sql.unsafe(insert), copy.sql.unsafe(insert)]);
		await source.sql`delete from company_contacts where bitrix_id = 4711`;
		expect(here).toEqual(there);
		// The row with the highest ID was deleted before the backup. The ID is not reused.
		expect(here?.id).toBe(2504);
	});

	test('serves the same list to the same keys, byte by byte, from processes that were already running', async () => {
		const copy = await newDatabase();
		const [app, original] = [await start(copy, companyContacts), await start(source, companyContacts)];
		const path = '/api/company_contacts.list?project=alpha&api_key=alpha-key';
		expect((await app.fetch(path)).status).toBe(401);
		expect((await contacts(copy.url, ['restore', file])).code).toBe(0);
		await vi.waitUntil(async () => (await app.fetch(path)).status === 200, { timeout: 5000 });
		for (const query of ['', '&company_id=1', '&company_id=9223372036854775807']) {
			const [mine, theirs] = [await app.fetch(path + query), await original.fetch(path + query)];
			expect(mine.headers.get('etag')).toBe(theirs.headers.get('etag'));
			const body = Buffer.from(await mine.arrayBuffer());
			expect(body.equals(Buffer.from(await theirs.arrayBuffer()))).toBe(true);
			expect(JSON.parse(body.toString()).count).toBeGreaterThan(0);
		}
		expect((await app.fetch(path.replace('alpha-key', 'revoked-key'))).status).toBe(401);
	});

	test('keeps personal contacts and their subscriptions', async () => {
		const copy = await newDatabase();
		expect((await contacts(copy.url, ['restore', file])).code).toBe(0);
		const app = await start(copy, personalContacts);
		const save = async (chatId: number) => {
			const answer = await app.fetch('/api/personal_contacts?project=beta&api_key=beta-key', {
				method: 'POST',
				headers: { 'content-type': 'application/json' },
				body: JSON.stringify({ chat_id: chatId, username: 'new' }),
			});
			return answer.json();
		};
		expect(await save(1)).toEqual({ ok: 'skipped' });
		expect(await save(3)).toEqual({ ok: 'saved' });
		const rows = await copy.sql`
			select chat_id::int as id, username, name, birth_date::text as born from personal_contacts where chat_id in (1, 3) order by 1`;
		expect([...rows]).toEqual([
			{ id: 1, username: null, name: '', born: '9999-12-31' },
			{ id: 3, username: 'new', name: '\\', born: '9999-12-31' },
		]);
	});
});

test('a backup covers every table of the schema', async () => {
	const header = JSON.parse(
		gunzipSync(await readFile(file))
			.toString()
			.split('\n', 1)[0] ?? '',
	);
	const there = await source.sql<{ name: string; columns: string[] }[]>`
		select table_name as name, json_agg(column_name order by ordinal_position) as columns
		from information_schema.columns where table_schema = 'public' group by table_name`;
	const kept = there.filter(({ name }) => !excludedTables.includes(name));
	const byName = (one: { name: string }, other: { name: string }) => (one.name < other.name ? -1 : 1);
	const described = header.tables.map(({ name, columns }: { name: string; columns: string[] }) => ({ name, columns }));
	expect(described.sort(byName)).toEqual([...kept].sort(byName));
});

test('only its owner can read the file, it leaves no temporary file, and it contains no API key', async () => {
	expect((await stat(file)).mode & 0o777).toBe(0o600);
	expect(await readdir(folder)).toEqual(['contacts.backup']);
	const text = gunzipSync(await readFile(file)).toString();
	expect(text).toContain('🙂 Ivan Петров');
	expect(text).not.toContain('alpha-key');
});

test('--json reports what the backup contains', async () => {
	const path = join(await temporaryFolder(), 'b');
	const outcome = await contacts(source.url, ['backup', path, '--json']);
	const { tables, rows } = JSON.parse(outcome.stdout);
	expect(tables).toContainEqual({ name: 'company_contacts', rows: 2502 });
	expect(rows).toBe(tables.reduce((sum: number, table: { rows: number }) => sum + table.rows, 0));
});

test('a backup omits a running full pass, and a restore leaves none', async () => {
	const [database, copy] = [await newDatabase(), await newDatabase()];
	const stage = (sql: typeof database.sql) =>
		sql`insert into crm_sync_staging (bitrix_id, name, trouble_contact) values (7, 'staged', true)`;
	await stage(database.sql);
	const path = join(await temporaryFolder(), 'b');
	// A full pass locks the table like this while it finishes. A backup does not wait for it.
	await database.sql.begin(async (sql) => {
		await sql`lock table crm_sync_staging in access exclusive mode`;
		expect(await contacts(database.url, ['backup', path])).toMatchObject({ code: 0, stderr: '' });
	});
	expect(gunzipSync(await readFile(path)).toString()).not.toContain('staged');
	await stage(copy.sql);
	await copy.sql`
		insert into crm_sync_requests (kind, configuration, wanted_until) values ('full', '{}', now() + interval '1 hour')`;
	expect((await contacts(copy.url, ['restore', path])).code).toBe(0);
	expect(await copy.sql`select from crm_sync_staging`).toHaveLength(0);
	expect(await copy.sql`select from crm_sync_requests`).toHaveLength(0);
});

test('a backup does not contain concurrent writes', async () => {
	const database = await newDatabase();
	await fillDatabase(database.sql, 10);
	const path = join(await temporaryFolder(), 'b');
	let running: Promise<Outcome> | undefined;
	await database.sql.begin(async (other) => {
		// The backup waits here with its snapshot, before it reads the contacts.
		await other`lock table audit_log in access exclusive mode`;
		running = contacts(database.url, ['backup', path]);
		await vi.waitUntil(
			async () => (await database.sql`select from pg_locks where database is not null and not granted`).length > 0,
			{ timeout: 20_000 },
		);
		await database.sql`insert into company_contacts (bitrix_id, name) values (4711, 'later')`;
	});
	expect(await running).toMatchObject({ code: 0, stderr: '' });
	const text = gunzipSync(await readFile(path)).toString();
	expect(text).toContain('\t1000006\t');
	expect(text).not.toContain('later');
	expect(JSON.parse(text.split('\n', 1)[0] ?? '').tables).toContainEqual(
		expect.objectContaining({ name: 'company_contacts', rows: 12 }),
	);
});

test('the audit log shows who made a backup and who restored it', async () => {
	const [database, copy] = [await newDatabase(), await newDatabase()];
	const path = join(await temporaryFolder(), 'b');
	const environment = { CONTACTS_ACTOR: 'alice' };
	expect((await contacts(database.url, ['backup', path], { environment })).code).toBe(0);
	await contacts(copy.url, ['project', 'create', 'replaced']);
	expect((await contacts(copy.url, ['restore', path, '--replace', '--yes'], { environment })).code).toBe(0);
	const [header] = gunzipSync(await readFile(path))
		.toString()
		.split('\n', 1);
	const { schema, created_at } = JSON.parse(header ?? '');
	const details = { schema, created_at, keyed: false, rows: 1 };
	const logOf = (of: TestDatabase) => of.sql`select actor, action, project, details from audit_log order by id`;
	const row = { actor: 'alice', project: null };
	expect([...(await logOf(database))]).toEqual([{ ...row, action: 'backup written', details }]);
	expect([...(await logOf(copy))]).toEqual([
		{ ...row, action: 'database restored', details: { ...details, replaced: true } },
	]);
});

test('clients with a copy of the contacts start again after a restore', async () => {
	const copy = await newDatabase();
	const epochOf = async () => (await copy.sql`select epoch from company_contacts_version`)[0]?.epoch;
	const before = await epochOf();
	expect((await contacts(copy.url, ['restore', file])).code).toBe(0);
	expect(await epochOf()).not.toBe(before);
});

test('memory does not grow with the number of rows', async () => {
	const [many, copy] = [await newDatabase(), await newDatabase()];
	await many.sql`
		insert into company_contacts (bitrix_id, name, perplexity_reason)
		select id, 'Contact ' || id, repeat('x', 600) from generate_series(1, 60000) id`;
	const path = join(await temporaryFolder(), 'many');
	// It could hold about half of the 50 MB of text.
	const environment = { NODE_OPTIONS: '--max-old-space-size=28' };
	expect(await contacts(many.url, ['backup', path], { environment })).toMatchObject({ code: 0 });
	expect(await contacts(copy.url, ['restore', path], { environment })).toMatchObject({ code: 0 });
	const [row] = await copy.sql`select count(*)::int as count, count(distinct id)::int as ids from company_contacts`;
	expect(row).toEqual({ count: 60_000, ids: 60_000 });
});

test('- stands for standard output and standard input, so pipes work', async () => {
	const copy = await newDatabase();
	const script = '"$NODE" "$MAIN" backup - | DATABASE_URL="$COPY" "$NODE" "$MAIN" restore -';
	const { stdout } = await promisify(execFile)('sh', ['-c', script], {
		env: { NODE: process.execPath, MAIN: main, DATABASE_URL: source.url, COPY: copy.url },
	});
	expect(stdout).toMatch(/^Restored \d{4} rows/);
	expect(await readEverything(copy.sql)).toEqual(await readEverything(source.sql));
});

test('the operator’s role may not make a backup, and the error says so', async () => {
	const url = urlAs(source.url, 'operator', rolePassword);
	expect(url).toContain(roles.operator);
	const path = join(await temporaryFolder(), 'b');
	expectOneLine(await contacts(url, ['backup', path]), 1, 'This needs the owner of the database');
	expectOneLine(await contacts(url, ['restore', file]), 1, 'This needs the owner of the database');
});

test('a backup of an earlier schema can be restored into that schema and then migrated', async () => {
	const [old, copy] = [await createTestDatabase('template0'), await createTestDatabase('template0')];
	onTestFinished(async () => void (await Promise.all([old.drop(), copy.drop()])));
	expect((await contacts(old.url, ['migrate', '--to', '5'])).stdout).toMatch(/^Applied: .+, 5\.roles\.\n$/);
	await old.sql`insert into projects (code) values ('alpha')`;
	const path = join(await temporaryFolder(), 'old');
	expect(await contacts(old.url, ['backup', path])).toMatchObject({
		code: 0,
		stdout: expect.stringContaining('2 rows of 7'),
	});

	expectOneLine(await contacts(copy.url, ['restore', path]), 1, 'run "contacts migrate --to 5" first');
	const current = await newDatabase();
	expectOneLine(await contacts(current.url, ['restore', path]), 1, 'run "contacts migrate --to 5", restore, then');
	expect((await contacts(copy.url, ['migrate', '--to', '5'])).code).toBe(0);
	expectOneLine(await contacts(copy.url, ['restore', file]), 1, 'run "contacts migrate" first');
	expect((await contacts(copy.url, ['restore', path])).code).toBe(0);
	expect((await contacts(copy.url, ['migrate'])).code).toBe(0);
	expect((await contacts(copy.url, ['project', 'list'])).stdout).toContain('alpha');
	expectOneLine(await contacts(copy.url, ['migrate', '--to', '99']), 2, '--to takes the number of a migration');
});
