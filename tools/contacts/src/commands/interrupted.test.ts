import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, vi } from 'vitest';
import { bytes, file, test } from '../testing/backed-up.js';
import { fillDatabase, readEverything } from '../testing/backup.js';
import { contacts, environmentOf, main } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

/** The connections of commands that wait for a lock or for their client. */
async function waiting(database: TestDatabase, wait: 'Lock' | 'Client'): Promise<number[]> {
	const rows = await database.sql<{ pid: number }[]>`
		select pid from pg_stat_activity
		where datname = current_database() and application_name = 'contacts' and wait_event_type = ${wait} and xact_start is not null`;
	return rows.map(({ pid }) => pid);
}

/** How long another process may take to reach a state. */
const patient = { timeout: 20_000 };

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
				where datname = current_database() and relation = 'company_contacts_bitrix_id_key'::regclass and mode = 'RowExclusiveLock'
				  and state = 'active' and wait_event = 'ClientRead'
			) as busy`;
		return row.busy;
	}, patient);
	return { child, errors, exited };
}

test('a killed restore changes nothing, and the next one succeeds', async () => {
	const full = await ownDatabase();
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
	const copy = await ownDatabase();
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

test('a restore changes nothing when it can no longer keep synchronisers from working', async () => {
	const copy = await ownDatabase();
	const before = await readEverything(copy.sql);
	const { child, errors, exited } = await halfway(copy);
	await copy.sql`
		select pg_terminate_backend(pid) from pg_stat_activity
		where datname = current_database() and application_name = 'company-contacts-sync'`;
	child.stdin.end(bytes.subarray(Math.floor(bytes.length / 2)));
	expect(await exited).toEqual([1, null]);
	expect(await errors).toBe(
		'error: The connection that keeps synchronisers from working was lost; nothing was changed. Try again.\n',
	);
	expect(await readEverything(copy.sql)).toEqual(before);
});

test.each(['SIGTERM', 'SIGINT', 'lost'] as const)(
	'a backup (%s) leaves no partial file, and keeps the old one',
	async (how) => {
		const database = await ownDatabase();
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

test('a restore and a subscription command at the same time end in no deadlock', async () => {
	const full = await ownDatabase();
	await fillDatabase(full.sql, 20);
	await full.sql`insert into direct_subscription_reports values (1, now())`;
	const other = await full.sql.reserve();
	await other`begin`;
	// Where a restore begins to delete.
	await other`select from crm_event_inbox for update`;
	const restored = contacts(full.url, ['restore', file, '--replace', '--yes']);
	await vi.waitUntil(async () => (await waiting(full, 'Lock')).length === 1, patient);
	const started = contacts(full.url, ['subscription', 'start', '1']);
	await vi.waitUntil(async () => (await waiting(full, 'Lock')).length === 2, patient);
	await other`commit`;
	other.release();
	expect(await restored).toMatchObject({ code: 0, stderr: '' });
	expect((await started).stderr).not.toContain('deadlock');
});
