import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, onTestFinished } from 'vitest';

function makeFolder(mode: number): string {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-test-'));
	chmodSync(folder, mode);
	return folder;
}

const remove = (folder: string) => rmSync(folder, { recursive: true, force: true });

/** A folder for the duration of a test, with these permissions. */
export async function temporaryFolder(mode = 0o700): Promise<string> {
	const folder = makeFolder(mode);
	onTestFinished(() => remove(folder));
	return folder;
}

/** A folder for the duration of the test file, or of the `describe`, that calls this. Hooks that come later still have it. */
export function sharedFolder(mode = 0o700): string {
	const folder = makeFolder(mode);
	afterAll(() => remove(folder));
	return folder;
}
