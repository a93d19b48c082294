import { spawnSync } from 'node:child_process';
import { open, readdir, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestDatabase } from '@contacts/testing/database.js';
import { setOutputSettings } from '@contacts/testing/output-settings.js';
import { startProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { beforeEach, describe, expect, onTestFinished } from 'vitest';
import { contacts, environmentOf, expectOneLine, fileWith, main } from '../testing/command.js';
import { holdInserts, ownDatabase } from '../testing/own-database.js';

beforeEach(async () => {
	await database.sql`delete from direct_subscriptions`;
});

/** Imports a file with this text. */
const importText = async (text: string, name = 'subscribers.csv', ...args: string[]) =>
	contacts(database.url, ['subscription', 'import', await fileWith(text, name), ...args]);
/** The numbers of an import. */
const load = async (text: string, name?: string) => JSON.parse((await importText(text, name, '--json')).stdout);
const counts = (records: number, older = 0) => ({ records, applied: records - older, older });

const stored = async () =>
	(
		await database.sql<{ row: string }[]>`
		select concat_ws(' ', chat_id, coalesce(to_char(started_at at time zone 'UTC', 'YYYY-MM-DD'), 'unknown'),
			coalesce(to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD'), 'open')) as row
		from direct_subscriptions order by chat_id`
	).map(({ row }) => row);

test('past and active subscriptions are imported from CSV and NDJSON, and a second run changes nothing', async () => {
	const csv =
		'ended_at,chat_id,started_at\n,1,2026-01-01T00:00:00Z\n2026-02-01,-2,2026-01-01\n2999-01-01,3,2025-01-01T01:00:00+01:00\n';
	expect(await importText(csv)).toMatchObject({
		code: 0,
		stdout: '3 records: 3 applied, 0 older than what was reported or than another record.\n',
		stderr: '',
	});
	expect(await stored()).toEqual(['-2 2026-01-01 2026-02-01', '1 2026-01-01 open', '3 2025-01-01 2999-01-01']);
	expect(await load(csv)).toEqual(counts(3));
	const ndjson = '{"chat_id":1,"started_at":"2026-01-01","ended_at":"2999-01-01"}\n\n{"chat_id":4,"started_at":null}\n';
	expect(await load(ndjson, 'x.ndjson')).toEqual(counts(2));
	expect(await stored()).toContain('1 2026-01-01 2999-01-01');
	const rows = await database.sql`select details from audit_log where action = 'subscriptions imported' order by id`;
	expect(rows.at(-1)?.details).toEqual({ file: 'x.ndjson', ...counts(2) });
});

test('an import takes what "subscription list --json" prints, and the list of the other database is the same', async () => {
	const other = await ownDatabase();
	await setOutputSettings(other.sql);
	const list = async ({ url }: TestDatabase, ...args: string[]) =>
		(await contacts(url, ['subscription', 'list', '--json', ...args])).stdout;
	await other.sql`
		insert into direct_subscriptions (chat_id, started_at, ended_at)
		select n, now() - make_interval(mins => n), case when n % 3 = 0 then now() + make_interval(days => n) end
		from generate_series(1, 6000) n`;
	await other.sql`
		insert into direct_subscriptions values
			(-9007199254740991, '2026-01-01', '2026-02-01', '2026-02-01'), (-2, null, '2026-02-01', '2026-02-01')`;
	for (const [args, count] of [
		[[], 6000],
		[['--', '-9007199254740991'], 1],
		[['--', '-2'], 1],
	] as const) {
		const printed = await list(other, ...args);
		for (const _ of ['first', 'second']) expect(await load(printed, 'list.ndjson')).toEqual(counts(count));
		expect(await list(database, ...args)).toBe(printed);
	}
});

test.each([false, true])(
	'a file may end one subscription of a chat and begin the next, in any order (reversed: %s)',
	async (reversed) => {
		const lines = ['1,2025-01-01,2026-01-01', '1,2026-01-01,', '2,2025-01-01,2025-02-01', '2,2026-01-01,2026-02-01'];
		if (reversed) lines.reverse();
		const head = 'chat_id,started_at,ended_at';
		expect(await load([head, ...lines].join('\n'))).toEqual(counts(4, 2));
		const expected = ['1 2026-01-01 open', '2 2026-01-01 2026-02-01'];
		expect(await stored()).toEqual(expected);
		// One by one, as a longer file is saved in several statements.
		await database.sql`delete from direct_subscriptions`;
		for (const line of lines) await importText(`${head}\n${line}\n`);
		expect(await stored()).toEqual(expected);
	},
);

test('a line that is older than the last report of its chat is counted and not applied', async () => {
	await database.sql`
		insert into direct_subscriptions values
			(1, '2026-01-01', null, '2026-03-01'), (2, '2026-01-01', '2026-03-01', '2026-03-01'), (3, null, '2026-03-01', '2026-03-01')`;
	const before = await stored();
	const csv = 'chat_id,started_at,ended_at\n1,2026-01-01,2026-02-28\n2,2026-02-01,\n3,2026-02-01,\n';
	expect(await load(csv)).toEqual(counts(3, 3));
	expect(await stored()).toEqual(before);
	expect(await load(csv.replaceAll('2026-02', '2026-04'))).toEqual(counts(3));
	expect(await stored()).toEqual(['1 2026-01-01 2026-04-28', '2 2026-04-01 open', '3 2026-04-01 open']);
});

test('an end without a start keeps the stored start, and an older file does not reopen the subscription', async () => {
	const csv = 'chat_id,started_at\n1,2026-01-01\n';
	await importText(csv);
	expect((await importText('chat_id,ended_at\n1,2026-02-01\n2,2026-02-01\n')).code).toBe(0);
	const expected = ['1 2026-01-01 2026-02-01', '2 unknown 2026-02-01'];
	expect(await stored()).toEqual(expected);
	expect(await load(csv)).toEqual(counts(1, 1));
	expect(await stored()).toEqual(expected);
});

test('a line without a start means the active subscription or a new one; a chat may appear twice', async () => {
	await importText('chat_id,started_at\n1,2026-01-01\n');
	const csv = 'chat_id,ended_at\n1,2999-01-01\n2,\n2,\n2,2999-01-01\n';
	expect(await load(csv)).toEqual(counts(4, 2));
	const [first, second] = await stored();
	expect(first).toBe('1 2026-01-01 2999-01-01');
	expect(second).toMatch(/^2 20\d\d-\d\d-\d\d 2999-01-01$/);
	// A line without times removes the planned end, and keeps the start.
	await importText('chat_id\n1\n');
	expect((await stored())[0]).toBe('1 2026-01-01 open');
});

describe('a wrong line is named, and nothing is imported', () => {
	test.each([
		['0,,', 'chat_id is no integer other than 0'],
		['1.00000000000000000001,,', 'chat_id is no integer other than 0'],
		[',,', 'chat_id is no integer'],
		['7,2026-02-30,', 'started_at is neither a date nor a time'],
		['7,0001-01-01T00:00:00+03:00,', 'started_at is neither a date nor a time'],
		['7,2026-01-01T00:00:00,', 'started_at is neither'],
		['7,,never', 'ended_at is neither'],
		['7,2026-01-02,2026-01-01', 'ended_at is before started_at'],
		['7,2999-01-01,', 'started_at is in the future'],
		['7', 'fewer columns than the first line'],
	])('%s', async (line, reason) => {
		const outcome = await importText(`chat_id,started_at,ended_at\n90,2026-01-01,\n${line}\n91,2026-01-01,\n`);
		expect(outcome).toMatchObject({ code: 1, stdout: '' });
		expect(outcome.stderr).toContain(`line 3: ${reason}`);
		expect(outcome.stderr).toMatch(/error: 1 of 3 records are wrong: nothing was imported\.\n$/);
		expect(await stored()).toEqual([]);
	});

	test.each([
		['an unknown column', 'chat_id,since\n1,\n', 'x.csv', 'The first line must name columns among chat_id'],
		['a quote that is not closed', 'chat_id\n90\n"91\n', 'x.csv', "The file can't be read from line 3 on"],
		['an empty list', '[]\n', 'x.ndjson', 'The file has no records'],
	])('%s', async (_, text, name, line) => {
		expectOneLine(await importText(text, name), 1, line);
		expect(await stored()).toEqual([]);
	});

	test('of NDJSON, also a chat_id that only rounding makes an integer', async () => {
		const text = '{"chat_id":1}\n{"chat_id":2,"since":"2026-01-01"}\n{"chat_id":0.99999999999999999999}\n';
		const { stderr } = await importText(text, 'x.ndjson');
		expect(stderr).toContain('line 2: only chat_id, state, started_at, ended_at are known');
		expect(stderr).toContain('line 3: chat_id is no integer other than 0');
		expect(await stored()).toEqual([]);
	});
});

const lines = (count: number) => ['chat_id', ...Array.from({ length: count }, (_, index) => index + 1)].join('\n');
const importedRows = (file: string) =>
	database.sql<{ action: string; details: Record<string, unknown> }[]>`
		select action, details from audit_log where details->>'file' = ${file} order by id`;

test.each([
	[
		'SIGINT',
		130,
		'error: Interrupted: the first 10000 good records are saved. Import the file again for the others.\n',
	],
	['a failure', 1, 'error: The connection to the database was lost. Try again.\n'],
] as const)(
	'%s in the middle ends an import at a whole part, the audit log shows it, and it can be repeated',
	async (what, exit, line) => {
		const file = `${exit}.csv`;
		const path = await fileWith(lines(17_000), file);
		const hold = await holdInserts(database, 'direct_subscriptions', 'exists (select from direct_subscriptions)');
		const args = [main, 'subscription', 'import', path, '--json'];
		const command = startProcess(process.execPath, args, { env: environmentOf(database.url) });
		await hold.waits();
		if (what === 'SIGINT') command.kill(what);
		else await hold.terminate();
		await hold.release();
		expect([await command.exit, command.stderr()]).toEqual([exit, line]);
		const count = what === 'SIGINT' ? 10_000 : 5000;
		const counts = { records: count, applied: count, older: 0, broken_off: true };
		expect(JSON.parse(command.stdout())).toEqual(counts);
		expect(await stored()).toHaveLength(count);
		expect(await importedRows(file)).toEqual([
			{
				action: 'subscriptions import started',
				details: { file, begun_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{6}Z$/) },
			},
			{ action: 'subscriptions imported', details: { file, ...counts } },
		]);
		expect((await contacts(database.url, ['subscription', 'import', path])).code).toBe(0);
		expect(await stored()).toHaveLength(17_000);
	},
);

test('standard input is checked whole before anything is saved, in a file that nobody else can open and that leaves nothing', async () => {
	const folder = await temporaryFolder();
	const wrong = `${lines(12_000)}\nwrong\n`;
	const run = (input: string) => contacts(database.url, ['subscription', 'import', '-', '--format', 'csv'], { input });
	expect(await run(wrong)).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('line 12002: ') });
	expect(await stored()).toEqual([]);
	expect(await run(lines(12_000))).toMatchObject({ code: 0, stdout: expect.stringContaining('12000 applied') });

	const path = join(folder, 'input');
	expect(spawnSync('mkfifo', [path]).status).toBe(0);
	const command = startProcess(process.execPath, [main, 'subscription', 'import', path, '--format', 'csv'], {
		env: environmentOf(database.url, { TMPDIR: folder }),
	});
	const pipe = await open(path, 'w');
	onTestFinished(() => pipe.close());
	const copies = async () => {
		const descriptors = `/proc/${command.pid}/fd`;
		const names = (await readdir(descriptors)).map((name) => join(descriptors, name));
		const targets = await Promise.all(names.map((name) => readlink(name).catch(() => '')));
		return names.filter((_, index) => targets[index]?.startsWith(folder) && targets[index]?.endsWith(' (deleted)'));
	};
	await expect.poll(copies, { timeout: 20_000 }).toHaveLength(1);
	expect((await stat((await copies())[0] ?? '')).mode & 0o777).toBe(0o600);
	// Its folder is deleted after it.
	await expect.poll(() => readdir(folder)).toEqual(['input']);
	await command.stop('SIGKILL');
});
