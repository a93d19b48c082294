import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { contacts, expectOneLine } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

const start = '2026-01-01T00:00:00Z';

/** Imports a file with this text. */
async function importText(
	text: string | Buffer,
	{ name = 'subscribers.csv', args = [] as string[], url = database.url } = {},
) {
	const path = join(await temporaryFolder(), name);
	await writeFile(path, text);
	return contacts(url, ['subscription', 'import', path, ...args]);
}

const stored = async (url: TestDatabase = database) =>
	(
		await url.sql<{ row: string }[]>`
		select concat_ws(' ', chat_id, coalesce(to_char(started_at at time zone 'UTC', 'YYYY-MM-DD'), 'unknown'),
			coalesce(to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD'), 'open')) as row
		from direct_subscriptions order by chat_id`
	).map(({ row }) => row);

describe('subscription import', () => {
	test('imports past and active subscriptions from CSV and NDJSON, and a second run changes nothing', async () => {
		const own = await ownDatabase();
		const csv = `ended_at,chat_id,started_at\n,1,${start}\n2026-02-01,-2,2026-01-01\n2999-01-01,3,2025-01-01T01:00:00+01:00\n`;
		expect(await importText(csv, { url: own.url })).toEqual({
			code: 0,
			stdout:
				'3 lines: 3 subscriptions new, 0 changed, 0 as stored, 0 older than what is stored or than another line.\n',
			stderr: '',
		});
		expect(await stored(own)).toEqual(['-2 2026-01-01 2026-02-01', '1 2026-01-01 open', '3 2025-01-01 2999-01-01']);
		const again = await importText(csv, { url: own.url, args: ['--json'] });
		expect(JSON.parse(again.stdout)).toEqual({ records: 3, added: 0, changed: 0, unchanged: 3, older: 0 });

		const ndjson = `{"chat_id":1,"started_at":"${start}","ended_at":"2999-01-01"}\n\n{"chat_id":4,"started_at":null}\n`;
		const changed = await importText(ndjson, { url: own.url, name: 'x.ndjson', args: ['--json'] });
		expect(JSON.parse(changed.stdout)).toEqual({ records: 2, added: 1, changed: 1, unchanged: 0, older: 0 });
		expect(await stored(own)).toContain('1 2026-01-01 2999-01-01');
	});

	test('takes what "subscription list --json" prints, and the list of the other database is the same', async () => {
		const [from, to] = [await ownDatabase(), await ownDatabase()];
		const list = async ({ url }: TestDatabase, ...args: string[]) =>
			(await contacts(url, ['subscription', 'list', '--json', ...args])).stdout;
		await from.sql`
			insert into direct_subscriptions (chat_id, started_at, ended_at)
			select n, now() - make_interval(mins => n), case when n % 3 = 0 then now() + make_interval(days => n) end
			from generate_series(1, 6000) n`;
		await from.sql`
			insert into direct_subscriptions values (-1, '2026-01-01', '2026-02-01', '2026-02-01'), (-2, null, '2026-02-01', '2026-02-01')`;
		for (const printed of [await list(from), await list(from, '--', '-1'), await list(from, '--', '-2')]) {
			const records = JSON.parse(printed) as { chat_id: number }[];
			const imported = await importText(printed, { url: to.url, name: 'list.ndjson', args: ['--json'] });
			expect(JSON.parse(imported.stdout)).toMatchObject({ records: records.length, added: records.length });
			const again = await importText(printed, { url: from.url, name: 'list.ndjson', args: ['--json'] });
			expect(JSON.parse(again.stdout)).toMatchObject({ unchanged: records.length });
		}
		for (const args of [[], ['--', '-1'], ['--', '-2']])
			expect(await list(to, ...args)).toBe(await list(from, ...args));
	});

	test('an empty list is a file without lines', async () => {
		const own = await ownDatabase();
		const { stdout } = await contacts(own.url, ['subscription', 'list', '--json']);
		expect(JSON.parse(stdout)).toEqual([]);
		expectOneLine(await importText(stdout, { name: 'list.ndjson' }), 1, 'The file has no records');
	});

	test.each([
		['in their order', (lines: string[]) => lines],
		['in reverse', (lines: string[]) => lines.toReversed()],
	])('a file may end one subscription of a chat and begin the next, %s', async (_, order) => {
		const own = await ownDatabase();
		const lines = order([
			'1,2025-01-01,2026-01-01',
			'1,2026-01-01,',
			'2,2025-01-01,2025-02-01',
			'2,2026-01-01,2026-02-01',
		]);
		const outcome = await importText(`chat_id,started_at,ended_at\n${lines.join('\n')}\n`, {
			url: own.url,
			args: ['--json'],
		});
		expect(JSON.parse(outcome.stdout)).toEqual({ records: 4, added: 2, changed: 0, unchanged: 0, older: 2 });
		const expected = ['1 2026-01-01 open', '2 2026-01-01 2026-02-01'];
		expect(await stored(own)).toEqual(expected);
		// One by one, as a longer file is saved in several statements.
		const other = await ownDatabase();
		for (const line of lines) await importText(`chat_id,started_at,ended_at\n${line}\n`, { url: other.url });
		expect(await stored(other)).toEqual(expected);
	});

	test('a line that is older than the last report of its chat is counted and not applied', async () => {
		const own = await ownDatabase();
		await own.sql`
			insert into direct_subscriptions values
				(1, '2026-01-01', null, '2026-03-01'), (2, '2026-01-01', '2026-03-01', '2026-03-01'), (3, null, '2026-03-01', '2026-03-01')`;
		const before = await stored(own);
		const csv = 'chat_id,started_at,ended_at\n1,2026-01-01,2026-02-28\n2,2026-02-01,\n3,2026-02-01,\n';
		const outcome = await importText(csv, { url: own.url, args: ['--json'] });
		expect(JSON.parse(outcome.stdout)).toEqual({ records: 3, added: 0, changed: 0, unchanged: 0, older: 3 });
		expect(await stored(own)).toEqual(before);
		const newer = await importText(csv.replaceAll('2026-02', '2026-04'), { url: own.url, args: ['--json'] });
		expect(JSON.parse(newer.stdout)).toEqual({ records: 3, added: 0, changed: 3, unchanged: 0, older: 0 });
		expect(await stored(own)).toEqual(['1 2026-01-01 2026-04-28', '2 2026-04-01 open', '3 2026-04-01 open']);
	});

	test('an end without a start keeps the stored start', async () => {
		const own = await ownDatabase();
		await importText(`chat_id,started_at\n1,${start}\n`, { url: own.url });
		expect((await importText('chat_id,ended_at\n1,2026-02-01\n2,2026-02-01\n', { url: own.url })).code).toBe(0);
		expect(await stored(own)).toEqual(['1 2026-01-01 2026-02-01', '2 unknown 2026-02-01']);
	});

	test('an older file does not reopen an ended subscription', async () => {
		const own = await ownDatabase();
		const csv = `chat_id,started_at\n1,${start}\n`;
		await importText(csv, { url: own.url });
		await contacts(own.url, ['subscription', 'end', '1', '--at', '2026-02-01']);
		expect((await importText(csv, { url: own.url })).stdout).toContain('0 as stored, 1 older');
		expect(await stored(own)).toEqual(['1 2026-01-01 2026-02-01']);
	});

	test('a line without a start means the active subscription or a new one; a chat may appear twice', async () => {
		const own = await ownDatabase();
		await importText(`chat_id,started_at\n1,${start}\n`, { url: own.url });
		const csv = 'chat_id,ended_at\n1,2999-01-01\n2,\n2,\n2,2999-01-01\n';
		expect((await importText(csv, { url: own.url })).stdout).toContain(
			'4 lines: 1 subscription new, 1 changed, 0 as stored, 2 older',
		);
		const [first, second] = await stored(own);
		expect(first).toBe('1 2026-01-01 2999-01-01');
		expect(second).toMatch(/^2 20\d\d-\d\d-\d\d 2999-01-01$/);
		// A line without times removes the planned end, and keeps the start.
		await importText('chat_id\n1\n', { url: own.url });
		expect((await stored(own))[0]).toBe('1 2026-01-01 open');
	});

	test('the audit log records an import with its numbers, unless nothing was imported', async () => {
		const own = await ownDatabase();
		await importText('chat_id\nx\n', { url: own.url });
		await importText(`chat_id,started_at\n5,${start}\n`, { url: own.url });
		const rows = await own.sql`select action, details from audit_log where action like 'subscription%'`;
		expect([...rows]).toEqual([
			{
				action: 'subscriptions imported',
				details: { file: 'subscribers.csv', records: 1, added: 1, changed: 0, unchanged: 0, older: 0 },
			},
		]);
	});
});

describe('a wrong line is named, and nothing is imported', () => {
	test.each([
		['0,,', 'chat_id is no integer other than 0'],
		[',,', 'chat_id is no integer'],
		['7,2026-02-30,', 'started_at is neither a date nor a time'],
		['7,2026-01-01T00:00:00,', 'started_at is neither'],
		['7,,never', 'ended_at is neither'],
		['7,2026-01-02,2026-01-01', 'ended_at is before started_at'],
		['7,2999-01-01,', 'started_at is in the future'],
		['7', 'fewer columns than the first line'],
	])('%s', async (line, reason) => {
		const outcome = await importText(`chat_id,started_at,ended_at\n90,2026-01-01,\n${line}\n91,2026-01-01,\n`);
		expect(outcome).toMatchObject({ code: 1, stdout: '' });
		expect(outcome.stderr).toContain(`line 3: ${reason}`);
		expect(outcome.stderr).toMatch(/error: 1 of 3 lines are wrong: nothing was imported\.\n$/);
		expect(await stored()).toEqual([]);
	});

	test('of many wrong lines the first are named and all are counted', async () => {
		const outcome = await importText(`chat_id\n${'x\n'.repeat(1000)}`);
		expect(outcome.stderr.split('\n').filter((line) => line.startsWith('line '))).toHaveLength(100);
		expect(outcome.stderr).toContain('error: 1000 of 1000 lines are wrong');
	});

	test('an unknown field, in CSV and in NDJSON', async () => {
		expectOneLine(
			await importText('chat_id,since\n1,\n'),
			1,
			'The first line must name columns among chat_id, state, started_at, ended_at',
		);
		const outcome = await importText('{"chat_id":1,"since":"2026-01-01"}\n', { name: 'x.ndjson' });
		expect(outcome.stderr).toContain('line 1: only chat_id, state, started_at, ended_at are known');
	});

	test.each(['0.99999999999999999999', '1.00000000000000000001', '9007199254740991.4'])(
		'a chat_id that only rounding makes an integer: %s',
		async (chatId) => {
			for (const [name, text] of [
				['x.ndjson', `{"chat_id":${chatId}}\n`],
				['x.csv', `chat_id\n${chatId}\n`],
			] as const)
				expect((await importText(text, { name })).stderr).toMatch(/^line [12]: chat_id is no integer other than 0/);
			expect(await stored()).toEqual([]);
		},
	);

	test('a quote that is not closed', async () => {
		const outcome = await importText('chat_id,started_at\n90,2026-01-01\n91,"2026-01-01\n');
		expectOneLine(outcome, 1, "The file can't be read from line 3 on: a quote is opened there");
		expect(await stored()).toEqual([]);
	});
});
