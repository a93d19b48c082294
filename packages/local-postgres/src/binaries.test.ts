import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { describe, expect, test } from 'vitest';
import { canEnter, dataDirectoryVersion } from './binaries.js';

describe('canEnter', () => {
	test.each(['/', '/usr/bin'])('is true for %s', (folder) => {
		expect(canEnter(folder)).toBe(true);
	});

	test('is false for a folder below one that is closed to others, whatever its own permissions', async () => {
		const closed = await temporaryFolder(0o700);
		const folder = join(closed, 'a', 'b');
		mkdirSync(folder, { recursive: true });
		chmodSync(folder, 0o777);
		expect(canEnter(folder)).toBe(false);
		// The same folder is accessible as soon as its parent is open, if the temporary folder itself is open.
		chmodSync(closed, 0o711);
		expect(canEnter(folder)).toBe(canEnter(tmpdir()));
	});

	test.each([
		[0o755, true],
		[0o705, true],
		[0o711, false],
		[0o704, false],
		[0o750, false],
	])('depends on the rights %o of the folder itself', async (mode, expected) => {
		const folder = await temporaryFolder(mode);
		expect(canEnter(folder)).toBe(expected && canEnter(dirname(folder)));
	});
});

describe('dataDirectoryVersion', () => {
	test('returns the version in the folder, and undefined if there is none', async () => {
		const folder = await temporaryFolder();
		expect(dataDirectoryVersion(folder)).toBeUndefined();
		writeFileSync(join(folder, 'PG_VERSION'), '12\n');
		expect(dataDirectoryVersion(folder)).toBe('12');
	});
});
