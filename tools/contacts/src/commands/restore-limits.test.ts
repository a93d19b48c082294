import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { expect } from 'vitest';
import { readEverything } from '../testing/backup.js';
import { contacts, expectOneLine, spawnContacts } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

/** The beginning of a backup, up to one row of the audit log. */
async function startOfBackup(): Promise<string> {
	const empty = await ownDatabase();
	const file = join(await temporaryFolder(), 'empty.backup');
	expect(await contacts(empty.url, ['backup', file])).toMatchObject({ code: 0 });
	const header = JSON.parse(
		gunzipSync(await readFile(file))
			.toString()
			.split('\n', 1)[0] ?? '',
	);
	for (const table of header.tables) table.rows = table.name === 'audit_log' ? 1 : 0;
	const before = header.tables.findIndex(({ name }: { name: string }) => name === 'audit_log');
	return `${JSON.stringify(header)}\n${'\\.\n'.repeat(before)}`;
}

const mebibyte = 1_048_576;
const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);

test.each([
	[
		'its first line',
		() => `{"format":"${'x'.repeat(200 * mebibyte)}`,
		/This is no file that "contacts backup" has written/,
	],
	['its first line of many levels', () => nested(10 * mebibyte), /This is no file that "contacts backup" has written/],
	[
		'a row',
		(start: string) => `${start}1\t2026-01-01\t${'x'.repeat(200 * mebibyte)}\n`,
		/damaged: a row is longer than 16 MiB/,
	],
	[
		'a row of many levels',
		(start: string) =>
			`${start}1\t2026-01-01\ta\tr\tx\t\\N\t\\N\t${nested(7 * mebibyte)}\n\\.\n${'\\.\n'.repeat(6)}{}\n`,
		/damaged: its content is not what was written/,
	],
	[
		'the last line of many levels',
		(start: string) => `${start.replace('"rows":1', '"rows":0')}${'\\.\n'.repeat(7)}${nested(7 * mebibyte)}\n`,
		/damaged: /,
	],
])('a small archive that unpacks to a long line is refused in little memory: %s', async (_, content, reason) => {
	const before = await readEverything(database.sql);
	const file = join(await temporaryFolder(), 'bomb.backup');
	await writeFile(file, gzipSync(content(await startOfBackup())));
	const environment = { NODE_OPTIONS: '--max-old-space-size=128' };
	expectOneLine(await spawnContacts(database.url, ['restore', file], { environment }), 1, reason);
	expect(await readEverything(database.sql)).toEqual(before);
});

test('backup fails on a row that could not be restored, and leaves no file', async () => {
	const full = await ownDatabase();
	await full.sql`insert into company_contacts (bitrix_id, name) values (1, repeat('x', ${17 * mebibyte}))`;
	const folder = await temporaryFolder();
	const outcome = await contacts(full.url, ['backup', join(folder, 'contacts.backup')]);
	expectOneLine(outcome, 1, "A row of company_contacts is longer than 16 MiB: it can't be backed up.");
	expect(await readdir(folder)).toEqual([]);
});

test('memory does not grow with the number of rows', async () => {
	const [many, copy] = [await ownDatabase(), await ownDatabase()];
	await many.sql`
		insert into company_contacts (bitrix_id, name, perplexity_reason)
		select id, 'Contact ' || id, repeat('x', 600) from generate_series(1, 60000) id`;
	const path = join(await temporaryFolder(), 'many');
	// It could hold about half of the 50 MB of text.
	const environment = { NODE_OPTIONS: '--max-old-space-size=28' };
	expect(await spawnContacts(many.url, ['backup', path], { environment })).toMatchObject({ code: 0 });
	expect(await spawnContacts(copy.url, ['restore', path], { environment })).toMatchObject({ code: 0 });
	const [row] = await copy.sql`select count(*)::int as count, count(distinct id)::int as ids from company_contacts`;
	expect(row).toEqual({ count: 60_000, ids: 60_000 });
});
