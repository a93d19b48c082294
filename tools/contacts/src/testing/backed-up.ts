import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test as databaseTest } from '@contacts/testing/test.js';
import { expect } from 'vitest';
import { fillDatabase } from './backup.js';
import { contacts } from './command.js';

/** The backup of this test file's database, alone in its folder. It exists from the first `test.beforeAll` or test on. */
export let file: string;
export let bytes: Buffer;

/** `test` for a file that needs a database with all kinds of values, 1000 contacts among them, and a backup of it. */
export const test = databaseTest.extend(
	'backup',
	{ scope: 'file', auto: true },
	async ({ database }, { onCleanup }) => {
		await fillDatabase(database.sql, 1000);
		const folder = await mkdtemp(join(tmpdir(), 'contacts-backup-'));
		onCleanup(() => rm(folder, { recursive: true }));
		file = join(folder, 'contacts.backup');
		expect(await contacts(database.url, ['backup', file])).toMatchObject({ code: 0, stderr: '' });
		bytes = await readFile(file);
	},
);
