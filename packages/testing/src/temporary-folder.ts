import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** A folder for the duration of a test, with these permissions. */
export async function temporaryFolder(mode = 0o700): Promise<string> {
	const folder = await mkdtemp(join(tmpdir(), 'contacts-test-'));
	onTestFinished(() => rm(folder, { recursive: true, force: true }));
	await chmod(folder, mode);
	return folder;
}
