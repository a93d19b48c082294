import type { BackupOptions } from '../backup/backup.js';
import type { Command } from '../command.js';
import { yesOption } from '../confirm.js';

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
				'what anybody without it has altered or written.',
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
