import type { RestoreOptions } from '../backup/restore.js';
import type { Command } from '../command.js';
import { yesOption } from '../confirm.js';

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
			'\nConnect as the owner of the database, and stop the synchroniser. Running services keep returning what was there\n' +
				'before until everything is restored; meanwhile they can save nothing. A damaged or truncated file is refused. The\n' +
				'hash does not detect forgery, unless the file was written with BACKUP_KEY: set the same key here, and a file that\n' +
				'was altered, or written without the key, is refused too.',
		)
		.examples(
			'contacts migrate && contacts restore contacts.backup',
			'contacts restore contacts.backup --replace',
			'gpg --decrypt contacts.backup.gpg | contacts restore - --replace --yes',
		)
		.action(async (path: string, options: RestoreOptions) => {
			const { restore } = await import('../backup/restore.js');
			await restore(environment, path, options);
		});
}
