import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { openSession } from '@contacts/company-contacts/sync/session.js';
import { addProject } from '@contacts/testing/app.js';
import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database as source } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { bytes, file, test } from '../testing/backed-up.js';
import { fillDatabase, readEverything } from '../testing/backup.js';
import { contacts, environmentOf, expectOneLine, main } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

/** Empty before and after every test. */
let copy: TestDatabase;

test.beforeAll(async () => {
	copy = await createTestDatabase();
});
afterAll(() => copy?.drop());

async function variant(content: Buffer | string): Promise<string> {
	const path = join(await temporaryFolder(), 'variant');
	await writeFile(path, content);
	return path;
}

test.each([
	['a file that is not there', 'nowhere/there', 'There is no file nowhere/there'],
	['a folder', '.', '. is a folder'],
])('%s is refused', async (_, path, reason) => {
	expectOneLine(await contacts(copy.url, ['restore', path]), 1, reason);
});

test('a file that can’t be opened is refused', async () => {
	const path = join(await temporaryFolder(), 'socket');
	const server = createServer().listen(path);
	onTestFinished(() => void server.close());
	await once(server, 'listening');
	const reason = `${path} can't be read (ENXIO)`;
	expectOneLine(await contacts(copy.url, ['restore', path]), 1, reason);
	expectOneLine(await contacts(undefined, ['backup', '--verify', path]), 1, reason);
});

describe('a database that is not empty', () => {
	test('is not changed, and the error names what it contains', async () => {
		const full = await ownDatabase();
		await addProject(full.sql, 'mine', 'my-key');
		const before = await readEverything(full.sql);
		const outcome = await contacts(full.url, ['restore', file]);
		expectOneLine(outcome, 1, /not empty: projects \(1\), api_keys \(1\), audit_log \(2\)\. .+ --replace/);
		expect(await readEverything(full.sql)).toEqual(before);
	});

	test('is emptied with --replace, which needs a confirmation', async () => {
		const full = await ownDatabase();
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
		const full = await ownDatabase();
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

describe('a backup that can’t be written fails', () => {
	test('for a missing folder, and for a folder as the file', async () => {
		expectOneLine(await contacts(source.url, ['backup', '/nowhere/b']), 1, "/nowhere/b can't be written (ENOENT)");
		expectOneLine(await contacts(source.url, ['backup', dirname(file)]), 1, 'is no file');
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
