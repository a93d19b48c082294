import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { connectSingle, reach } from '@contacts/common/database/connect.js';
import { StartError } from './start-error.js';

/** What `contacts` finds in `database.json` of the data folder. */
interface PublishedDatabase {
	/** The owner's connection URL. */
	url: string;
	/** The process ID of the launcher. */
	pid: number;
}

const fileIn = (dataFolder: string) => join(dataFolder, 'database.json');

/**
 * Creates the data folder when it is missing.
 *
 * @throws StartError when it can't be written, or when `start` already runs on it
 */
export async function openDataFolder(dataFolder: string): Promise<void> {
	try {
		createFolder(dataFolder);
		const probe = join(dataFolder, `probe.${process.pid}`);
		writeFileSync(probe, '');
		rmSync(probe);
	} catch (error) {
		throw new StartError(
			`${dataFolder} can't be written (${(error as NodeJS.ErrnoException).code}): set another LOCAL_DATA_DIR.`,
		);
	}
	if (await isInUse(dataFolder))
		throw new StartError(`It runs already on ${dataFolder}: stop that one first, or set another LOCAL_DATA_DIR.`);
}

/** `mkdir` with `recursive` never returns below /proc, in Node.js 20. */
function createFolder(folder: string): void {
	try {
		mkdirSync(folder);
	} catch (error) {
		const { code } = error as NodeJS.ErrnoException;
		if (code === 'EEXIST') return;
		if (code !== 'ENOENT' || dirname(folder) === folder) throw error;
		createFolder(dirname(folder));
		mkdirSync(folder);
	}
}

/** Whether its launcher lives and its database accepts a login. Process IDs are reused, and a killed launcher's database is about to end. */
async function isInUse(dataFolder: string): Promise<boolean> {
	try {
		const { url, pid } = JSON.parse(readFileSync(fileIn(dataFolder), 'utf8')) as PublishedDatabase;
		process.kill(pid, 0);
		const sql = connectSingle(url);
		await reach(sql).finally(() => sql.end({ timeout: 0 }));
		return true;
	} catch {
		return false;
	}
}

/** Lets `contacts` find the database. */
export function publishDatabase(dataFolder: string, url: string): void {
	const file = fileIn(dataFolder);
	// A reader never sees a part of it.
	writeFileSync(`${file}.new`, JSON.stringify({ url, pid: process.pid } satisfies PublishedDatabase), { mode: 0o600 });
	renameSync(`${file}.new`, file);
}

export function unpublishDatabase(dataFolder: string): void {
	rmSync(fileIn(dataFolder), { force: true });
}

export const newPassword = () => randomBytes(24).toString('base64url');

/** The superuser's password. It is created once, also by two starts at the same time, and readable only by this user. */
export function superuserPassword(dataFolder: string): string {
	const file = join(dataFolder, 'password');
	const own = `${file}.${process.pid}`;
	writeFileSync(own, newPassword(), { mode: 0o600 });
	try {
		linkSync(own, file);
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
	} finally {
		rmSync(own);
	}
	return readFileSync(file, 'utf8');
}
