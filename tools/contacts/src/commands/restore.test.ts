import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { openSession } from '@contacts/company-contacts/sync/session.js';
import { addProject } from '@contacts/testing/app.js';
import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database as source, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished, vi } from 'vitest';
import { fillDatabase, readEverything } from '../testing/backup.js';
import { contacts, environmentOf, expectOneLine, main } from '../testing/command.js';

/** Empty before and after every test. */
let copy: TestDatabase;
let folder: string;
let file: string;
let bytes: Buffer;

test.beforeAll(async () => {
	copy = await createTestDatabase();
	await fillDatabase(source.sql, 2000);
	folder = await mkdtemp(join(tmpdir(), 'contacts-restore-'));
	file = join(folder, 'contacts.backup');
	expect(await contacts(source.url, ['backup', file])).toMatchObject({ code: 0, stderr: '' });
	bytes = await readFile(file);
});
afterAll(async () => {
	await copy?.drop();
	if (folder) await rm(folder, { recursive: true });
});

async function newDatabase(): Promise<TestDatabase> {
	const database = await createTestDatabase();
	onTestFinished(() => database.drop());
	return database;
}

async function variant(content: Buffer | string): Promise<string> {
	const path = join(await temporaryFolder(), 'variant');
	await writeFile(path, content);
	return path;
}

/** The connections of commands that wait for a lock or for their client. */
async function waiting(database: TestDatabase, wait: 'Lock' | 'Client'): Promise<number[]> {
	const rows = await database.sql<{ pid: number }[]>`
		select pid from pg_stat_activity
		where datname = current_database() and application_name = 'contacts' and wait_event_type = ${wait} and xact_start is not null`;
	return rows.map(({ pid }) => pid);
}

test.each([
	['a file that is not there', 'nowhere/there', 'There is no file nowhere/there'],
	['a folder', '.', '. is a folder'],
])('%s is refused', async (_, path, reason) => {
	expectOneLine(await contacts(copy.url, ['restore', path]), 1, reason);
});

describe('a database that is not empty', () => {
	test('is not changed, and the error names what it contains', async () => {
		const full = await newDatabase();
		await addProject(full.sql, 'mine', 'my-key');
		const before = await readEverything(full.sql);
		const outcome = await contacts(full.url, ['restore', file]);
		expectOneLine(outcome, 1, /not empty: projects \(1\), api_keys \(1\), audit_log \(2\)\. .+ --replace/);
		expect(await readEverything(full.sql)).toEqual(before);
	});

	test('is emptied with --replace, which needs a confirmation', async () => {
		const full = await newDatabase();
		await fillDatabase(full.sql, 50);
		await full.sql`insert into crm_sync_runs (kind) select 'full' from generate_series(1, 40)`;
		const before = await readEverything(full.sql);
		const readEpoch = () => full.sql`select epoch from company_contacts_version`;
		const [epoch] = await readEpoch();
		const refused = await contacts(full.url, ['restore', file, '--replace']);
		expectOneLine(refused, 2, /Everything in the database test_\w+ on [\w.:]+ will be deleted\..* say --yes/);
		expect(await readEverything(full.sql)).toEqual(before);

		expect(await contacts(full.url, ['restore', file, '--replace', '--yes'])).toMatchObject({ code: 0, stderr: '' });
		const { sequences, ...rows } = await readEverything(full.sql);
		const { sequences: expected, ...expectedRows } = await readEverything(source.sql);
		expect(rows).toEqual(expectedRows);
		// Older cursors are refused, so copies of these contacts start again.
		expect(await readEpoch()).not.toEqual([epoch]);
		// An ID that was assigned here is not assigned again.
		expect(sequences).toEqual(expected?.map((row) => row.replace('crm_sync_runs_id_seq 2', 'crm_sync_runs_id_seq 42')));
	});

	test('keeps its data when the backup turns out to be damaged', async () => {
		const full = await newDatabase();
		await fillDatabase(full.sql, 50);
		const before = await readEverything(full.sql);
		const cut = await variant(bytes.subarray(0, -5));
		expectOneLine(await contacts(full.url, ['restore', cut, '--replace', '--yes']), 1, 'ends too early');
		expect(await readEverything(full.sql)).toEqual(before);
	});
});

test('restore refuses to run beside a synchroniser', async () => {
	const session = await openSession(copy.url);
	try {
		expectOneLine(
			await contacts(copy.url, ['restore', file]),
			1,
			'A synchroniser works on this database: stop it first',
		);
	} finally {
		await session?.close();
	}
});

/** How long another process may take to reach a state. */
const patient = { timeout: 20_000 };

describe('interrupted halfway', () => {
	/** Starts a restore that has received half of the file and has written some of it. */
	async function halfway(database: TestDatabase) {
		const child = spawn(process.execPath, [main, 'restore', '-', '--replace', '--yes'], {
			env: environmentOf(database.url),
			timeout: 60_000,
			killSignal: 'SIGKILL',
		});
		child.stdin.on('error', () => undefined).write(bytes.subarray(0, Math.floor(bytes.length / 2)));
		const exited = once(child, 'close');
		const errors = text(child.stderr);
		await vi.waitUntil(async () => {
			const [row] = await database.sql<[{ busy: boolean }]>`
				select exists (
					select from pg_locks join pg_stat_activity using (pid)
					where relation = 'company_contacts_bitrix_id_key'::regclass and mode = 'RowExclusiveLock'
					  and state = 'active' and wait_event = 'ClientRead'
				) as busy`;
			return row.busy;
		}, patient);
		return { child, errors, exited };
	}

	test('a killed restore changes nothing, and the next one succeeds', async () => {
		const full = await newDatabase();
		await fillDatabase(full.sql, 20);
		const before = await readEverything(full.sql);
		const { child, exited } = await halfway(full);
		// Meanwhile the services read the old data.
		expect(await readEverything(full.sql)).toEqual(before);
		child.kill('SIGKILL');
		await exited;
		await vi.waitUntil(async () => (await waiting(full, 'Client')).length === 0, patient);
		expect(await readEverything(full.sql)).toEqual(before);
		expect(await contacts(full.url, ['restore', file, '--replace', '--yes'])).toMatchObject({ code: 0 });
	});

	test('a restore reports a lost connection', async () => {
		const before = await readEverything(copy.sql);
		const { child, errors, exited } = await halfway(copy);
		// The server is busy between two pieces of the file.
		let pids: number[] = [];
		await vi.waitUntil(async () => {
			pids = await waiting(copy, 'Client');
			return pids.length === 1;
		}, patient);
		for (const pid of pids) await copy.sql`select pg_terminate_backend(${pid})`;
		child.stdin.end(bytes.subarray(Math.floor(bytes.length / 2)));
		expect(await exited).toEqual([1, null]);
		expect(await errors).toBe('error: The connection to the database was lost; nothing was changed. Try again.\n');
		expect(await readEverything(copy.sql)).toEqual(before);
	});

	test.each(['SIGTERM', 'SIGINT', 'lost'] as const)(
		'a backup (%s) leaves no partial file, and keeps the old one',
		async (how) => {
			const database = await newDatabase();
			const place = await temporaryFolder();
			const path = join(place, 'old');
			await writeFile(path, 'the old one');
			// A client without an open connection has none to reserve.
			await database.sql`select 1`;
			const other = await database.sql.reserve();
			await other`begin`;
			await other`lock table company_contacts in access exclusive mode`;
			const child = spawn(process.execPath, [main, 'backup', path, '--yes'], { env: environmentOf(database.url) });
			const exited = once(child, 'close');
			await vi.waitUntil(async () => (await waiting(database, 'Lock')).length === 1, patient);
			expect(await readdir(place)).toHaveLength(2);
			if (how === 'lost') {
				for (const pid of await waiting(database, 'Lock')) await database.sql`select pg_terminate_backend(${pid})`;
			} else child.kill(how);
			expect(await exited).toEqual([{ SIGTERM: 143, SIGINT: 130, lost: 1 }[how], null]);
			await other`rollback`;
			other.release();
			expect(await readdir(place)).toEqual(['old']);
			expect(await readFile(path, 'utf8')).toBe('the old one');
		},
	);
});

describe('a backup that can’t be written fails', () => {
	test('for a missing folder, and for a folder as the file', async () => {
		expectOneLine(await contacts(source.url, ['backup', '/nowhere/b']), 1, "/nowhere/b can't be written (ENOENT)");
		expectOneLine(await contacts(source.url, ['backup', folder]), 1, 'is no file');
	});

	test('for an existing file, unless replacing it is confirmed', async () => {
		const path = await variant('precious');
		expectOneLine(await contacts(source.url, ['backup', path]), 2, /will be replaced\. .+ --yes/);
		expect(await readFile(path, 'utf8')).toBe('precious');
		expect((await contacts(source.url, ['backup', path, '--yes'])).code).toBe(0);
		expect(gunzipSync(await readFile(path)).length).toBeGreaterThan(100_000);
	});

	test('for a full disk, and for a reader that closes the pipe', async () => {
		const full = await open('/dev/full', 'w');
		onTestFinished(() => full.close());
		const run = async (stdout: number | 'pipe') => {
			const child = spawn(process.execPath, [main, 'backup', '-'], {
				env: environmentOf(source.url),
				stdio: ['ignore', stdout, 'pipe'],
			});
			child.stdout?.destroy();
			const [errors, [code]] = await Promise.all([
				text(child.stderr as NonNullable<typeof child.stderr>),
				once(child, 'close'),
			]);
			return { errors, code };
		};
		expect(await run(full.fd)).toEqual({
			code: 1,
			errors: "error: The backup can't be written (ENOSPC): it is incomplete.\n",
		});
		expect(await run('pipe')).toEqual({
			code: 1,
			errors: "error: The backup can't be written (EPIPE): it is incomplete.\n",
		});
	});
});
