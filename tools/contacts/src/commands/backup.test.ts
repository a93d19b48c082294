import { execFile } from 'node:child_process';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { readRights } from '@contacts/common/database/rights.sql.js';
import { roles, urlAs } from '@contacts/common/database/roles.js';
import { rolePassword, type TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database as source } from '@contacts/testing/test.js';
import { expect, vi } from 'vitest';
import { excludedTables } from '../backup/tables.sql.js';
import { file, test } from '../testing/backed-up.js';
import { fillDatabase, readEverything } from '../testing/backup.js';
import { contacts, expectOneLine, main, type Outcome } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

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
	expect(await readdir(dirname(file))).toEqual(['contacts.backup']);
	const text = gunzipSync(await readFile(file)).toString();
	expect(text).toContain('🙂 Ivan Петров');
	expect(text).not.toContain('alpha-key');
});

test('a file that a killed backup has left does not prevent the next one, even with the same process ID', async () => {
	const path = join(await temporaryFolder(), 'b');
	await writeFile(`${path}.${process.pid}.part`, 'the beginning');
	expect(await contacts(source.url, ['backup', path])).toMatchObject({ code: 0, stderr: '' });
});

test('--json reports what the backup contains', async () => {
	const path = join(await temporaryFolder(), 'b');
	const outcome = await contacts(source.url, ['backup', path, '--json']);
	const { tables, rows } = JSON.parse(outcome.stdout);
	expect(tables).toContainEqual({ name: 'company_contacts', rows: 1002 });
	expect(rows).toBe(tables.reduce((sum: number, table: { rows: number }) => sum + table.rows, 0));
});

test('a backup omits a running full pass, and a restore leaves none', async () => {
	const [database, copy] = [await ownDatabase(), await ownDatabase()];
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
	const database = await ownDatabase();
	await fillDatabase(database.sql, 10);
	const path = join(await temporaryFolder(), 'b');
	let running: Promise<Outcome> | undefined;
	await database.sql.begin(async (other) => {
		// The backup waits here with its snapshot, before it reads the contacts.
		await other`lock table audit_log in access exclusive mode`;
		running = contacts(database.url, ['backup', path]);
		const waiting = () => database.sql`
			select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
		await vi.waitUntil(async () => (await waiting()).length > 0, { timeout: 20_000 });
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
	const [database, copy] = [await ownDatabase(), await ownDatabase()];
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

test('- stands for standard output and standard input, so pipes work', async () => {
	const copy = await ownDatabase();
	const script = '"$NODE" "$MAIN" backup - | DATABASE_URL="$COPY" "$NODE" "$MAIN" restore -';
	const { stdout } = await promisify(execFile)('sh', ['-c', script], {
		env: { NODE: process.execPath, MAIN: main, DATABASE_URL: source.url, COPY: copy.url },
	});
	expect(stdout).toMatch(/^Restored \d{4} rows/);
	expect(await readEverything(copy.sql)).toEqual(await readEverything(source.sql));
});

test('personal contacts that were partitioned as docs/scale.md says are backed up, restored, and have the same rights', async () => {
	const [database, copy] = [await ownDatabase(), await ownDatabase()];
	await fillDatabase(database.sql, 1);
	const rights = async () => (await readRights(database.sql, Object.values(roles))).map((row) => ({ ...row }));
	const before = await rights();
	const page = await readFile(new URL('../../../../docs/scale.md', import.meta.url), 'utf8');
	const statements = page.split('## Partitions')[1]?.split('```sql')[1]?.split('```')[0] ?? '';
	const [, inTransaction = ''] = /^\s*begin;(.+)commit;\s*$/s.exec(statements) ?? [];
	for (const { sql } of [database, copy]) await sql.begin((transaction) => transaction.unsafe(inTransaction));
	expect(await rights()).toEqual(before);
	const path = join(await temporaryFolder(), 'b');
	expect(await contacts(database.url, ['backup', path])).toMatchObject({ code: 0, stderr: '' });
	expect((await contacts(copy.url, ['restore', path])).code).toBe(0);
	const rows = (of: TestDatabase) => of.sql`select * from personal_contacts order by chat_id`;
	const stored = [...(await rows(database))];
	expect(stored).toHaveLength(11);
	expect([...(await rows(copy))]).toEqual(stored);
});

test('the operator’s role may not make a backup, and the error says so', async () => {
	const url = urlAs(source.url, 'operator', rolePassword);
	expect(url).toContain(roles.operator);
	const path = join(await temporaryFolder(), 'b');
	expectOneLine(await contacts(url, ['backup', path]), 1, 'This needs the owner of the database');
	expectOneLine(await contacts(url, ['restore', file]), 1, 'This needs the owner of the database');
});

test('a backup of an earlier schema can be restored into that schema and then migrated', async () => {
	const [old, copy] = [await ownDatabase('template0'), await ownDatabase('template0')];
	expect((await contacts(old.url, ['migrate', '--to', '5'])).stdout).toMatch(/^Applied: .+, 5\.roles\.\n$/);
	await old.sql`insert into projects (code) values ('alpha')`;
	const path = join(await temporaryFolder(), 'old');
	expect(await contacts(old.url, ['backup', path])).toMatchObject({
		code: 0,
		stdout: expect.stringContaining('2 rows of 7'),
	});

	expectOneLine(await contacts(copy.url, ['restore', path]), 1, 'run "contacts migrate --to 5" first');
	const current = await ownDatabase();
	expectOneLine(await contacts(current.url, ['restore', path]), 1, 'run "contacts migrate --to 5", restore, then');
	expect((await contacts(copy.url, ['migrate', '--to', '5'])).code).toBe(0);
	expectOneLine(await contacts(copy.url, ['restore', file]), 1, 'run "contacts migrate" first');
	expect((await contacts(copy.url, ['restore', path])).code).toBe(0);
	expect((await contacts(copy.url, ['migrate'])).code).toBe(0);
	expect((await contacts(copy.url, ['project', 'list'])).stdout).toContain('alpha');
	expectOneLine(await contacts(copy.url, ['migrate', '--to', '99']), 2, '--to takes the number of a migration');
});
