import type { Command } from '../command.js';
import { UsageError } from '../errors.js';
import type { OutputOptions } from '../output.js';
import type { SyncOptions } from '../sync-run.js';

export function addSyncCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	const sync = program
		.command('sync')
		.description('bring the company contacts in line with Bitrix24')
		.option('--once', 'one pass, then end')
		.option('--full', 'read every contact, from the first one on, whether or not that is due')
		.option('--dry-run', 'tell what a full pass would change, and write nothing')
		.option('--contact <id>', 'read this one contact again')
		.option('--confirm-mass-delete', 'delete what is gone from the CRM though it is much')
		.option('--remap', 'read every contact again, with another portal, other fields or another country than before')
		.option('--json', 'print the result as JSON')
		.addHelpText(
			'after',
			'\nIt reads BITRIX24_WEBHOOK_URL and the other BITRIX24_ variables that docs/configuration.md names, and refuses what differs from\n' +
				'the mirror’s without --remap. Only one synchroniser works at a time. Where one runs, this asks it to do the work, waits\n' +
				'and exits by its outcome. Ctrl-C cancels what has not started; work in progress continues. Without any of the first\n' +
				'six options this goes on for ever, and fails where another synchroniser runs.',
		)
		.examples(
			'contacts sync --dry-run',
			'contacts sync --once --full',
			'contacts sync --contact 4711',
			'contacts sync --remap',
		)
		.action(async (options: SyncOptions) => {
			const { contact = '1' } = options;
			if (!/^[1-9][0-9]{0,15}$/.test(contact) || !Number.isSafeInteger(Number(contact))) {
				throw new UsageError('--contact takes the ID of a contact in the CRM, a positive integer.');
			}
			if (options.remap && (options.dryRun || options.contact !== undefined)) {
				throw new UsageError('--remap reads every contact: it goes with neither --dry-run nor --contact.');
			}
			if (options.dryRun && options.contact !== undefined) {
				throw new UsageError('--dry-run tells of a full pass: it does not go with --contact.');
			}
			// Loaded only here, so that other commands do not load the synchroniser.
			const { runSync } = await import('../sync-run.js');
			await runSync(environment, options);
		});

	sync
		.command('status')
		.description('when the mirror was last in line with the CRM, what is under way, and what blocks it')
		.option('--json', 'print the record as JSON')
		.examples('contacts sync status')
		.action(async (_options: OutputOptions, command: Command) => {
			// "sync" also has this option, and parses it first.
			const options = command.optsWithGlobals<OutputOptions>();
			const { printSyncStatus } = await import('../sync-status.js');
			await printSyncStatus(environment, options);
		});
}
