import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { Command } from 'commander';
import { type BackupKey, readBackupKey } from '../backup/backup-key.js';
import type { Header } from '../backup/format.js';
import { findTarget, writeFileWhole } from '../backup/output-file.js';
import { openFile, readBackup, verifyBackup } from '../backup/read-backup.js';
import { inTransaction, isDatabaseError } from '../backup/transaction.js';
import { readHeader, snapshot, writeBackup } from '../backup/write-backup.js';
import { type ConfirmOptions, confirm, yesOption } from '../confirm.js';
import { findDatabaseUrl } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { examples } from '../examples.js';
import { type OutputOptions, printResult } from '../output.js';
import { createProgress } from '../progress.js';
import { streams } from '../streams.js';

export function addBackupCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('backup')
		.argument('<file>', 'where to write it; - for standard output (with --verify: for standard input)')
		.description('write everything in the database into one file, as it is at this moment')
		.option('--verify', 'read an existing backup instead, and say whether it is what was written; needs no database')
		.option(...yesOption)
		.option('--json', 'print the summary as JSON')
		.addHelpText(
			'after',
			'\nConnect as the owner of the database. The services go on meanwhile. The file holds personal data and the hashes of\n' +
				'keys: only you may read it, and it is not encrypted. An existing file is replaced once the new one is complete.\n' +
				'With BACKUP_KEY in the environment (32 characters or more) the file is keyed: a restore with the same key refuses\n' +
				'what anybody without it has altered or written.\n' +
				examples(
					'contacts backup contacts.backup && contacts backup --verify contacts.backup',
					'contacts backup - | gpg --encrypt --recipient ops@example.com > contacts.backup.gpg',
				),
		)
		.action(async (path: string, options: OutputOptions & ConfirmOptions & { verify?: boolean }) => {
			const key = readBackupKey(environment);
			if (options.verify) {
				const header = await readBackup(path === '-' ? streams().stdin : await openFile(path), key, verifyBackup);
				printSummary(path, header, key, options);
				return;
			}
			const url = await findDatabaseUrl(environment);
			if (path === '-') {
				const { stdout } = streams();
				if (stdout.isTTY) throw new UsageError('A backup is no text for a terminal: name a file, or pipe it.');
				await backUp(url, stdout, key);
				return;
			}
			const target = await findTarget(path);
			if (target.exists) await confirm(`${path} will be replaced.`, options);
			let header: Header | undefined;
			await writeFileWhole(target.path, async (file) => {
				header = await backUp(url, file, key);
			});
			printSummary(path, header as Header, key, options);
		});
}

function printSummary(file: string, header: Header, key: BackupKey | undefined, options: OutputOptions): void {
	const { schema, created_at } = header;
	const tables = header.tables.map(({ name, rows }) => ({ name, rows }));
	const rows = tables.reduce((sum, table) => sum + table.rows, 0);
	const keyed = key === undefined ? '' : ', with a keyed hash';
	const text = `${rows} rows of ${tables.length} tables are in ${file}${keyed}.`;
	printResult({ file, schema, created_at, keyed: key !== undefined, rows, tables }, text, options);
}

function backUp(url: string, destination: Writable, key: BackupKey | undefined): Promise<Header> {
	return inTransaction(url, snapshot, async (sql) => {
		const { header, tables } = await readHeader(sql, new Date(), key);
		const progress = createProgress(header.tables.reduce((sum, { rows }) => sum + rows, 0));
		try {
			const text = writeBackup(sql, header, tables, (rows) => progress.update(rows, rows), key);
			// Standard output is not ours to end.
			await pipeline(text, createGzip(), destination, { end: destination !== streams().stdout });
		} catch (error) {
			const { code, syscall } = error as NodeJS.ErrnoException;
			if (syscall === 'write' && !isDatabaseError(error))
				throw new CommandError(`The backup can't be written (${code}): it is incomplete.`);
			throw error;
		} finally {
			progress.stop();
		}
		return header;
	});
}
