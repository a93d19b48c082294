import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { expect } from 'vitest';
import { fillDatabase } from '../testing/backup.js';
import { contacts, expectOneLine } from '../testing/command.js';

test('backup --verify accepts an unchanged backup, refuses any other, and needs no database', async () => {
	await fillDatabase(database.sql, 50);
	const file = join(await temporaryFolder(), 'contacts.backup');
	const written = await contacts(database.url, ['backup', file, '--json']);
	const nowhere = 'postgres://nobody@127.0.0.1:1/nothing';
	const verified = await contacts(nowhere, ['backup', '--verify', file, '--json']);
	expect(verified).toMatchObject({ code: 0, stderr: '' });
	expect(JSON.parse(verified.stdout)).toEqual(JSON.parse(written.stdout));

	const bytes = await readFile(file);
	const flipped = Buffer.from(bytes);
	flipped[bytes.length >> 1] = (flipped[bytes.length >> 1] as number) ^ 0x10;
	for (const content of [flipped, bytes.subarray(0, -20)]) {
		await writeFile(file, content);
		expectOneLine(await contacts(nowhere, ['backup', '--verify', file]), 1, /The backup is damaged/);
	}
	const key = { BACKUP_KEY: 'k'.repeat(32) };
	await writeFile(file, bytes);
	expectOneLine(await contacts(nowhere, ['backup', '--verify', file], { environment: key }), 1, /no keyed hash/);
});
