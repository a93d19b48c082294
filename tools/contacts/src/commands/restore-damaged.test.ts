import { readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { afterAll, describe, expect } from 'vitest';
import { bytes, test } from '../testing/backed-up.js';
import { readEverything } from '../testing/backup.js';
import { contacts, expectOneLine } from '../testing/command.js';

/** Empty before and after every test. */
let copy: TestDatabase;
let untouched: Record<string, string[]>;

test.beforeAll(async () => {
	copy = await createTestDatabase();
	untouched = await readEverything(copy.sql);
});
afterAll(() => copy?.drop());

async function variant(content: Buffer | string): Promise<string> {
	const path = join(await temporaryFolder(), 'variant');
	await writeFile(path, content);
	return path;
}

describe('a file that differs from what was written is refused, and nothing changes', () => {
	const shares = [0, 0.0001, 0.1, 0.4, 0.7, 0.95, 0.9999];
	test.each(shares)('cut off after %d of its length', async (share) => {
		const cut = await variant(bytes.subarray(0, Math.floor(bytes.length * share)));
		const reason = /The backup is damaged: it ends too early|This is no file that "contacts backup"/;
		expectOneLine(await contacts(copy.url, ['restore', cut]), 1, reason);
		expect(await readEverything(copy.sql)).toEqual(untouched);
	});

	test.each([0.001, 0.05, 0.3, 0.6, 0.9, 0.999])('one bit flipped at %d of its length', async (share) => {
		const flipped = Buffer.from(bytes);
		const place = Math.max(10, Math.floor(bytes.length * share));
		flipped[place] = (flipped[place] as number) ^ 0x10;
		const reason = /^error: (The backup is damaged: .+Nothing was changed|This is no file)/;
		expectOneLine(await contacts(copy.url, ['restore', await variant(flipped)]), 1, reason);
		expect(await readEverything(copy.sql)).toEqual(untouched);
	});

	const change: [string, (lines: string[]) => string[], string][] = [
		['a name', (lines) => lines.map((line) => line.replace('\t王小明 ', '\tMallory ')), 'its content'],
		['a row left out', (lines) => lines.filter((line) => !line.includes('\t1000300\t')), 'has not as many rows'],
		['two rows in the other order', (lines) => swap(lines, 60), 'its content'],
		['what no row may be', (lines) => lines.map((line) => line.replace('\t+7', '\t7')), 'its content'],
		['a row that lacks a column', (lines) => lines.map((line) => line.replace('\t1000300\t', '\t')), 'its content'],
		[
			'what no row may be, in the last of many',
			(lines) => lines.map((line) => line.replace('\t1002997\t', '\t0\t')),
			'its content',
		],
		[
			'the time in the header',
			([header = '', ...lines]) => [header.replace('_at":"20', '_at":"19'), ...lines],
			'its content',
		],
		['lines after its end', (lines) => [...lines, '{}', ''], 'something follows its end'],
		['the last line missing', (lines) => [...lines.slice(0, -2), ''], 'it ends too early'],
		[
			'the IDs that come next',
			([header = '', ...lines]) => [header.replace('"next_id":4', '"next_id":1'), ...lines],
			'its content',
		],
	];
	test.each(change)('packed again with other content: %s', async (_, edit, reason) => {
		const edited = edit(gunzipSync(bytes).toString().split('\n')).join('\n');
		expect(edited).not.toBe(gunzipSync(bytes).toString());
		const outcome = await contacts(copy.url, ['restore', await variant(gzipSync(edited))]);
		expectOneLine(outcome, 1, 'The backup is damaged: ');
		expect(outcome.stderr).toContain(reason);
		expect(outcome.stderr).not.toMatch(/Mallory|\+?7900\d/);
		expect(await readEverything(copy.sql)).toEqual(untouched);
	});

	function swap(lines: string[], at: number): string[] {
		return [...lines.slice(0, at), lines[at + 1] as string, lines[at] as string, ...lines.slice(at + 2)];
	}
});

/** The first line of a backup of the current schema. */
function emptyHeader(tables: string): string {
	const migrations = readdirSync(new URL('../../../../packages/common/migrations', import.meta.url));
	const schema = Math.max(...migrations.map((name) => Number.parseInt(name, 10)));
	return `{"format":"contacts-backup","version":3,"key_id":null,"schema":${schema},"created_at":"","tables":${tables}}\n`;
}

test.each([
	['no gzip', 'bitrix_id,name\n1,x\n', 'The backup is damaged: it can’t be unpacked'],
	['something else in gzip', gzipSync('bitrix_id,name\n'), 'no file that "contacts backup" has written'],
	['a later format', gzipSync('{"format":"contacts-backup","version":4}\n'), 'format 4: use the release that wrote it'],
	['half a header', gzipSync(emptyHeader('[{}]')), 'its first line'],
	['other columns', gzipSync(emptyHeader('[]')), 'other columns'],
])('%s is refused', async (_, content, reason) => {
	expectOneLine(await contacts(copy.url, ['restore', await variant(content)]), 1, reason);
});
