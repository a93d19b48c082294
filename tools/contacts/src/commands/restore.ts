import type { Readable } from 'node:stream';
import { readDatabaseUrl } from '@contacts/common/database/database-url.js';
import { openSession } from '@contacts/company-contacts/sync/session.js';
import type { Command } from 'commander';
import { type BackupKey, readBackupKey } from '../backup/backup-key.js';
import type { Header } from '../backup/format.js';
import { openFile, readBackup } from '../backup/read-backup.js';
import { restoreBackup } from '../backup/restore-backup.js';
import { inTransaction } from '../backup/transaction.js';
import { type ConfirmOptions, confirm, yesOption } from '../confirm.js';
import { findDatabaseUrl } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { examples } from '../examples.js';
import { type OutputOptions, printResult } from '../output.js';
import { streams } from '../streams.js';

interface Options extends OutputOptions, ConfirmOptions {
	replace?: boolean;
}

export function addRestoreCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('restore')
		.argument('<file>', 'what "contacts backup" wrote; - for standard input')
		.description('put a backup into an empty database: all of it, or nothing')
		.option('--replace', 'delete everything that is in the database first')
		.option(...yesOption)
		.option('--json', 'print the summary as JSON')
		.addHelpText(
			'after',
			'\nConnect as the owner of the database, and stop the synchroniser. Services that run go on answering from what was there\n' +
				'until everything is restored; meanwhile they can save nothing. A file that is damaged or cut off is refused. Its hashes\n' +
				'find no forgery, unless it was written with BACKUP_KEY: set the same key here, and a file that was altered, or\n' +
				'written without the key, is refused too.\n' +
				examples(
					'contacts migrate && contacts restore contacts.backup',
					'contacts restore contacts.backup --replace',
					'gpg --decrypt contacts.backup.gpg | contacts restore - --replace --yes',
				),
		)
		.action(async (path: string, options: Options) => {
			const key = readBackupKey(environment);
			const url = await findDatabaseUrl(environment);
			if (path === '-' && streams().stdin.isTTY)
				throw new UsageError('Name a file, or pipe a backup into this command.');
			const source = path === '-' ? streams().stdin : await openFile(path);
			const replace = options.replace ?? false;
			if (replace) {
				const { database, hostList } = readDatabaseUrl(url);
				await confirm(`Everything in the database ${database} on ${hostList} will be deleted.`, options);
			}
			const { schema, created_at, tables } = await restore(url, source, replace, key);
			const rows = tables.reduce((sum, table) => sum + table.rows, 0);
			const rowsOf = tables.map(({ name, rows }) => ({ name, rows }));
			const summary = { schema, created_at, keyed: key !== undefined, rows, tables: rowsOf };
			const what = `Restored ${rows} rows of ${tables.length} tables, as they were at ${created_at}.`;
			printResult(summary, key === undefined ? what : `${what} Its keyed hash is right.`, options);
		});
}

async function restore(url: string, source: Readable, replace: boolean, key: BackupKey | undefined): Promise<Header> {
	// Held until the end: a synchroniser would go on from where the other data stood.
	const session = await openSession(url);
	if (session === undefined) throw new CommandError('A synchroniser works on this database: stop it first.');
	try {
		return await readBackup(source, key, (backup, onRows) =>
			inTransaction(url, 'begin', (sql) => restoreBackup(sql, backup, { replace, onRows })),
		);
	} finally {
		await session.close();
	}
}
