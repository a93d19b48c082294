import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { CommandError } from '../errors.js';
import { createProgress } from '../progress.js';
import type { BackupKey } from './backup-key.js';
import { DamagedBackupError, type Header } from './format.js';
import { type BackupLines, openBackup } from './restore-backup.js';

export async function openFile(path: string): Promise<Readable> {
	const stats = await stat(path).catch((error: NodeJS.ErrnoException) => {
		throw new CommandError(
			error.code === 'ENOENT' ? `There is no file ${path}.` : `${path} can't be read (${error.code}).`,
		);
	});
	if (stats.isDirectory()) throw new CommandError(`${path} is a folder.`);
	return createReadStream(path);
}

/**
 * Unpacks a backup and has `work` read it, with progress.
 *
 * @throws DamagedBackupError, CommandError when it is not what was written
 */
export async function readBackup(
	source: Readable,
	key: BackupKey | undefined,
	work: (backup: BackupLines, onRows: (rows: number) => void) => Promise<void>,
): Promise<Header> {
	try {
		return await pipeline(source, createGunzip(), async (chunks: AsyncIterable<Buffer>) => {
			const backup = await openBackup(chunks, key);
			const progress = createProgress(backup.header.tables.reduce((sum, { rows }) => sum + rows, 0));
			try {
				await work(backup, (rows) => progress.update(rows, rows));
			} finally {
				progress.stop();
			}
			return backup.header;
		});
	} catch (error) {
		const { code, syscall } = error as NodeJS.ErrnoException;
		if (code === 'Z_BUF_ERROR') throw new DamagedBackupError('it ends too early');
		if (code?.startsWith('Z_')) throw new DamagedBackupError('it can’t be unpacked');
		if (syscall === 'read') throw new CommandError(`The backup can't be read (${code}); nothing was changed.`);
		throw error;
	}
}

/** Reads all of a backup, and compares its rows with their number and everything with the hash at its end. */
export async function verifyBackup(backup: BackupLines, onRows: (rows: number) => void): Promise<void> {
	let read = 0;
	for (const { name, rows } of backup.header.tables) {
		for (let row = 0; row < rows; row++) {
			await backup.next(`a row of ${name}`);
			onRows(++read);
		}
		await backup.next(`the line behind ${name}`);
	}
	await backup.end();
}
