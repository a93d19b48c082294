import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { contacts, expectOneLine, expectWrongUsage } from '../testing/command.js';
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
		select concat_ws(' ', chat_id, to_char(started_at at time zone 'UTC', 'YYYY-MM-DD'),
			coalesce(to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD'), 'open')) as row
		from direct_subscriptions order by chat_id, direct_subscriptions.started_at`
	).map(({ row }) => row);

describe('subscription import', () => {
	test('imports past, active and planned subscriptions from CSV and NDJSON, and a second run changes nothing', async () => {
		const own = await ownDatabase();
		const csv = `ended_at,chat_id,started_at\n,1,${start}\n2026-02-01,-2,2026-01-01\n,3,2999-01-01\n,1,2025-01-01T01:00:00+01:00\n`;
		const bad = await importText(csv, { url: own.url });
		// Chat 1 would have two open-ended ones.
		expect(bad).toMatchObject({ code: 1, stdout: '' });
		expect(bad.stderr).toContain('line 5: the chat has another subscription without an end\n');
		expect(await stored(own)).toEqual([]);

		const good = csv.replace(',1,2025-01-01T01:00:00+01:00', '2025-06-01,1,2025-01-01T01:00:00+01:00');
		expect(await importText(good, { url: own.url })).toEqual({
			code: 0,
			stdout: '4 lines: 4 subscriptions new, 0 got another end.\n',
			stderr: '',
		});
		const rows = ['-2 2026-01-01 2026-02-01', '1 2025-01-01 2025-06-01', '1 2026-01-01 open', '3 2999-01-01 open'];
		expect(await stored(own)).toEqual(rows);
		const again = await importText(good, { url: own.url, args: ['--json'] });
		expect(JSON.parse(again.stdout)).toEqual({ records: 4, added: 0, changed: 0 });

		const ndjson = `{"chat_id":1,"started_at":"${start}","ended_at":"2999-01-01"}\n\n{"chat_id":4,"started_at":null}\n`;
		const changed = await importText(ndjson, { url: own.url, name: 'x.ndjson', args: ['--json'] });
		expect(JSON.parse(changed.stdout)).toEqual({ records: 2, added: 1, changed: 1 });
		expect(await stored(own)).toContain('1 2026-01-01 2999-01-01');
	});

	test('an older file does not reopen an ended subscription', async () => {
		const own = await ownDatabase();
		const csv = `chat_id,started_at\n1,${start}\n`;
		await importText(csv, { url: own.url });
		await contacts(own.url, ['subscription', 'end', '1', '--at', '2026-02-01']);
		expect((await importText(csv, { url: own.url })).stdout).toContain('0 subscriptions new, 0 got');
		expect(await stored(own)).toEqual(['1 2026-01-01 2026-02-01']);
	});

	test('a line without a start means the active subscription or a new one; a chat may appear twice', async () => {
		const own = await ownDatabase();
		await importText(`chat_id,started_at\n1,${start}\n`, { url: own.url });
		const csv = 'chat_id,ended_at\n1,2999-01-01\n2,\n2,\n2,2999-01-01\n';
		expect((await importText(csv, { url: own.url })).stdout).toContain(
			'4 lines: 1 subscriptions new, 2 got another end.',
		);
		const [first, second] = await stored(own);
		expect(first).toBe('1 2026-01-01 2999-01-01');
		expect(second).toMatch(/^2 20\d\d-\d\d-\d\d 2999-01-01$/);
	});

	test('the audit log records an import with its numbers, unless nothing was imported', async () => {
		const own = await ownDatabase();
		await importText('chat_id\nx\n', { url: own.url });
		await importText(`chat_id,started_at\n5,${start}\n`, { url: own.url });
		const rows = await own.sql`select action, details from audit_log where action like 'subscription%'`;
		expect([...rows]).toEqual([
			{ action: 'subscriptions imported', details: { file: 'subscribers.csv', records: 1, added: 1, changed: 0 } },
		]);
	});
});

describe('a wrong line is named, and nothing is imported', () => {
	test.each([
		['0,,', 'chat_id is no integer other than 0'],
		['1.5,,', 'chat_id is no integer'],
		[',,', 'chat_id is no integer'],
		['7,yesterday,', 'started_at is neither a date nor a time'],
		['7,2026-02-30,', 'started_at is neither a date nor a time'],
		['7,2026-01-01T00:00:00,', 'started_at is neither'],
		['7,,never', 'ended_at is neither'],
		['7,2026-01-02,2026-01-01', 'ended_at is before started_at'],
		['7,,2020-01-01', 'ended_at is in the past, and there is no started_at'],
		['7', 'not as many columns as the head'],
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
			'The first line must name columns among chat_id, started_at, ended_at',
		);
		const outcome = await importText('{"chat_id":1,"since":"2026-01-01"}\n', { name: 'x.ndjson' });
		expect(outcome.stderr).toContain('line 1: only chat_id, started_at, ended_at are known');
	});

	test('a file without lines', async () => {
		for (const [name, text] of [
			['none.csv', 'chat_id\n'],
			['none.ndjson', ''],
		] as const)
			expectOneLine(await importText(text, { name }), 1, 'The file has no records: nothing was imported.');
	});

	test('a missing file, and an unknown format', async () => {
		expectOneLine(await contacts(database.url, ['subscription', 'import', '/none.csv']), 1, 'There is no file');
		await expectWrongUsage(database.url, ['subscription', 'import', 'a.xlsx'], 'does not end in .csv or .ndjson');
	});
});
