import { createHash, createHmac } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database as source, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { fillDatabase, readEverything } from '../testing/backup.js';
import { contacts, expectOneLine } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

const key = 'a-key-of-this-test-0123456789-abcdef';
const otherKey = key.toUpperCase();

/** Empty before and after every test, except those that create their own. */
let copy: TestDatabase;
let untouched: Record<string, string[]>;

test.beforeAll(async () => {
	copy = await createTestDatabase();
	untouched = await readEverything(copy.sql);
	await fillDatabase(source.sql, 20);
});
afterAll(() => copy?.drop());

const withKey = (value: string | undefined) => (value === undefined ? {} : { environment: { BACKUP_KEY: value } });

async function backup(value: string | undefined): Promise<string> {
	const file = join(await temporaryFolder(), 'contacts.backup');
	expect(await contacts(source.url, ['backup', file], withKey(value))).toMatchObject({ code: 0, stderr: '' });
	return file;
}

async function expectRefused(file: string, value: string | undefined, reason: string | RegExp): Promise<void> {
	const outcome = await contacts(copy.url, ['restore', file], withKey(value));
	expectOneLine(outcome, 1, reason);
	expect(outcome.stderr).toContain('Nothing was changed');
	expect(await readEverything(copy.sql)).toEqual(untouched);
}

const linesOf = async (file: string) =>
	gunzipSync(await readFile(file))
		.toString()
		.trimEnd()
		.split('\n');
const headerOf = async (file: string) => JSON.parse((await linesOf(file))[0] ?? '');
const pack = (file: string, lines: string[]) => writeFile(file, gzipSync(`${lines.join('\n')}\n`));

test('a backup with BACKUP_KEY can be restored with that key, and both commands say that it is keyed', async () => {
	const file = join(await temporaryFolder(), 'contacts.backup');
	const target = await ownDatabase();
	expect((await contacts(source.url, ['backup', file], withKey(key))).stdout).toMatch(/, with a keyed hash\.\n$/);
	const restored = await contacts(target.url, ['restore', file, '--json'], withKey(key));
	expect([restored.code, JSON.parse(restored.stdout)]).toEqual([0, expect.objectContaining({ keyed: true })]);
	expect(await readEverything(target.sql)).toEqual(await readEverything(source.sql));
	const again = await contacts(target.url, ['restore', file, '--replace', '--yes'], withKey(key));
	expect(again.stdout).toMatch(/Its keyed hash is right\.\n$/);
});

test('the last line of a keyed backup is an HMAC-SHA-256 of all lines before it, and the file does not contain the key', async () => {
	const file = await backup(key);
	const lines = await linesOf(file);
	const before = `${lines.slice(0, -1).join('\n')}\n`;
	const mac = createHmac('sha256', key).update(before).digest('hex');
	expect(JSON.parse(lines.at(-1) ?? '')).toEqual({ end: true, hmac_sha256: mac });
	expect(await headerOf(file)).toMatchObject({ version: 3, key_id: expect.stringMatching(/^[0-9a-f]{16}$/) });
	expect(lines.join('\n')).not.toContain(key);
});

test('without BACKUP_KEY, or with an empty one, a backup has a plain hash and no key ID', async () => {
	for (const value of [undefined, '']) {
		const file = await backup(value);
		expect(await headerOf(file)).toMatchObject({ version: 3, key_id: null });
		expect(Object.keys(JSON.parse((await linesOf(file)).at(-1) ?? ''))).toEqual(['end', 'sha256']);
	}
});

test('a keyed backup is refused without BACKUP_KEY', async () => {
	for (const value of [undefined, ''])
		await expectRefused(await backup(key), value, 'This backup is keyed: set BACKUP_KEY');
});

test('a keyed backup is refused with another key', async () => {
	await expectRefused(await backup(key), otherKey, 'BACKUP_KEY is not the key that this backup was written with');
});

test('a backup without a key is refused with BACKUP_KEY', async () => {
	await expectRefused(await backup(undefined), key, 'This backup has no keyed hash');
});

const forged = '\tMallory\t';
const forge = (lines: string[]) => lines.map((line) => line.replace(/\t[^\t]* 3\t/, forged));

/** Recomputes the hash of the file, as somebody without the key can. */
const reseal = (lines: string[], seal: (before: string) => object) => {
	const before = lines.slice(0, -1);
	return [...before, JSON.stringify(seal(`${before.join('\n')}\n`))];
};

test('somebody without the key can’t alter a keyed backup or the key ID in its header', async () => {
	const file = await backup(key);
	const lines = await linesOf(file);
	const edited = reseal(forge(lines), () => JSON.parse(lines.at(-1) ?? ''));
	expect(edited.join()).toContain(forged);
	await pack(file, edited);
	await expectRefused(file, key, 'The backup is damaged: its content is not what was written');

	// Written with another key under the ID of the right one.
	const foreign = reseal(forge(lines), (before) => ({
		end: true,
		hmac_sha256: createHmac('sha256', otherKey).update(before).digest('hex'),
	}));
	await pack(file, foreign);
	await expectRefused(file, key, 'The backup is damaged: its content is not what was written');

	// With the hash of a backup without a key.
	const plain = reseal(forge(lines), (before) => ({
		end: true,
		sha256: createHash('sha256').update(before).digest('hex'),
	}));
	await pack(file, plain);
	await expectRefused(file, key, 'The backup is damaged: its content is not what was written');
});

test('anybody can alter a backup without a key, as its hashes detect damage only', async () => {
	const file = await backup(undefined);
	const edited = reseal(forge(await linesOf(file)), (before) => ({
		end: true,
		sha256: createHash('sha256').update(before).digest('hex'),
	}));
	await pack(file, edited);
	const target = await ownDatabase();
	expect(await contacts(target.url, ['restore', file])).toMatchObject({ code: 0 });
	const rows = await target.sql`select from company_contacts where name = 'Mallory'`;
	expect(rows).toHaveLength(1);
});

test.each([
	'short',
	'x'.repeat(31),
	`${'x'.repeat(40)} `,
	`${'x'.repeat(40)}\n`,
	`${'x'.repeat(40)}ü`,
	'x'.repeat(513),
])('an invalid BACKUP_KEY is wrong usage and is not shown: %j', async (value) => {
	const file = join(await temporaryFolder(), 'contacts.backup');
	for (const command of ['backup', 'restore']) {
		const outcome = await contacts(copy.url, [command, file], withKey(value));
		expectOneLine(outcome, 2, 'BACKUP_KEY must be 32 to 512 printable ASCII characters without spaces');
		expect(outcome.stderr).not.toContain(value.trim());
	}
});
