import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { createTestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { inTransaction } from '../backup/transaction.js';
import { readHeader, snapshot } from '../backup/write-backup.js';
import { readEverything } from '../testing/backup.js';
import { contacts, expectOneLine } from '../testing/command.js';

/** The header of a backup of one project. */
let header: { tables: { name: string; rows: number }[] };

test.beforeAll(async () => {
	({ header } = await inTransaction(database.url, snapshot, (sql) => readHeader(sql, new Date())));
	for (const table of header.tables) table.rows = table.name === 'projects' ? 1 : 0;
});

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
		() => `${JSON.stringify(header)}\n{"id":1,"code":"${'x'.repeat(200 * mebibyte)}"}\n`,
		/damaged: a row of projects is longer than 16 MiB/,
	],
	[
		'a row of many levels',
		() => `${JSON.stringify(header)}\n{"id":${nested(7 * mebibyte)}}\n`,
		/damaged: a row of projects is wrong/,
	],
	[
		'the line behind a table',
		() =>
			`${JSON.stringify({ ...header, tables: header.tables.map((table) => ({ ...table, rows: 0 })) })}\n${nested(7 * mebibyte)}\n`,
		/damaged: the rows of projects are not those that were written/,
	],
])('a small archive that unpacks to a long line is refused in little memory: %s', async (_, content, reason) => {
	const before = await readEverything(database.sql);
	const file = join(await temporaryFolder(), 'bomb.backup');
	await writeFile(file, gzipSync(content()));
	const environment = { NODE_OPTIONS: '--max-old-space-size=128' };
	expectOneLine(await contacts(database.url, ['restore', file], { environment }), 1, reason);
	expect(await readEverything(database.sql)).toEqual(before);
});

test('a row that could not be restored is not backed up: the command says so, and leaves no file', async () => {
	const full = await createTestDatabase();
	onTestFinished(() => full.drop());
	await full.sql`insert into company_contacts (bitrix_id, name) values (1, repeat('x', ${17 * mebibyte}))`;
	const folder = await temporaryFolder();
	const outcome = await contacts(full.url, ['backup', join(folder, 'contacts.backup')]);
	expectOneLine(outcome, 1, "A row of company_contacts is longer than 16 MiB: it can't be backed up.");
	expect(await readdir(folder)).toEqual([]);
});
