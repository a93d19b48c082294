import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { open, realpath, rename, stat } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { CommandError } from '../errors.js';

/** The path of the new file, and whether a file exists there. */
export interface Target {
	path: string;
	exists: boolean;
}

/** @throws CommandError when a file can't be there */
export async function findTarget(given: string): Promise<Target> {
	const path = await realpath(given).catch(() => undefined);
	if (path === undefined) return { path: given, exists: false };
	if (!(await stat(path)).isFile()) throw new CommandError(`${given} is no file; to write to standard output say -.`);
	return { path, exists: true };
}

/**
 * Lets `write` fill a file that only its owner may read. The file gets its name once it is complete and on the disk, and
 * never when something fails or the command is interrupted.
 */
export async function writeFileWhole(path: string, write: (stream: Writable) => Promise<void>): Promise<void> {
	// Not the process ID: in a container it is always the same, and a killed backup leaves its file.
	const temporary = `${path}.${randomUUID()}.part`;
	const file = await open(temporary, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
		throw new CommandError(`${path} can't be written (${error.code}).`);
	});
	const remove = () => rmSync(temporary, { force: true });
	const signals = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };
	const handlers = Object.entries(signals).map(([signal, code]) => {
		const handler = () => {
			remove();
			process.exit(code);
		};
		process.once(signal, handler);
		return { signal, handler };
	});
	try {
		await write(file.createWriteStream({ flush: true }));
		await rename(temporary, path);
	} catch (error) {
		remove();
		throw error;
	} finally {
		for (const { signal, handler } of handlers) process.removeListener(signal, handler);
		await file.close();
	}
}
