import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { describe, expect, test } from 'vitest';
import { canEnter, dataDirectoryVersion } from './binaries.js';

describe('canEnter', () => {
	test.each(['/', '/usr/bin'])('%s: everybody can', (folder) => {
		expect(canEnter(folder)).toBe(true);
	});

	test('a folder below one that is closed to others: they can’t, however open it is itself', async () => {
		const closed = await temporaryFolder(0o700);
		const folder = join(closed, 'a', 'b');
		mkdirSync(folder, { recursive: true });
		chmodSync(folder, 0o777);
		expect(canEnter(folder)).toBe(false);
		// The same folder can be entered as soon as the one above is opened, where the temporary folder itself is open.
		chmodSync(closed, 0o711);
		expect(canEnter(folder)).toBe(canEnter(tmpdir()));
	});

	test.each([
		[0o755, true],
		[0o705, true],
		[0o711, false],
		[0o704, false],
		[0o750, false],
	])('a folder with the rights %o itself', async (mode, expected) => {
		const folder = await temporaryFolder(mode);
		expect(canEnter(folder)).toBe(expected && canEnter(dirname(folder)));
	});
});

describe('dataDirectoryVersion', () => {
	test('is the one that is written there, and undefined where none is', async () => {
		const folder = await temporaryFolder();
		expect(dataDirectoryVersion(folder)).toBeUndefined();
		writeFileSync(join(folder, 'PG_VERSION'), '12\n');
		expect(dataDirectoryVersion(folder)).toBe('12');
	});
});
