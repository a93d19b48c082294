import type { BackupOptions } from '../backup/backup.js';
import type { Command } from '../command.js';
import { yesOption } from '../confirm.js';

export function addBackupCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('backup')
		.argument('<file>', 'where to write it; - for standard output (with --verify: for standard input)')
		.description('write a snapshot of the whole database into one file')
		.option('--verify', 'read an existing backup instead, and report whether it is intact; needs no database')
		.option(...yesOption)
		.option('--json', 'print the summary as JSON')
		.addHelpText(
			'after',
			'\nConnect as the owner of the database. Services keep running meanwhile. The file contains personal data and the\n' +
				'hashes of keys: only you can read it, and it is not encrypted. An existing file is replaced once the new one is\n' +
				'complete. With BACKUP_KEY in the environment (32 characters or more) the file ends in an HMAC: a restore with the\n' +
				'same key refuses a file that was altered or written without that key.',
		)
		.examples(
			'contacts backup contacts.backup && contacts backup --verify contacts.backup',
			'contacts backup - | gpg --encrypt --recipient ops@example.com > contacts.backup.gpg',
		)
		.action(async (path: string, options: BackupOptions) => {
			const { backUp } = await import('../backup/backup.js');
			await backUp(environment, path, options);
		});
}
