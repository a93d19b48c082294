import type { Command } from '../command.js';
import { UsageError } from '../errors.js';
import { isId } from '../numbers.js';
import type { OutputOptions } from '../output.js';
import type { SyncOptions } from '../sync-run.js';

export function addSyncCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	const sync = program
		.command('sync')
		.description('have the company contacts synchronised with Bitrix24')
		.option('--once', 'do it here if no synchroniser runs')
		.option('--full', 'run a full pass from the first contact, even if none is due')
		.option('--contact <id>', 'read this one contact again')
		.option('--confirm-mass-delete <run>', 'delete as many contacts as this full pass has found missing in the CRM')
		.option('--remap', 'read every contact again, here, for another portal, other fields or another country')
		.option('--json', 'print the result as JSON')
		.notes(
			'The synchroniser that runs does it, and this command waits for the outcome. A request counts for ten minutes, and Ctrl-C takes back one that has not begun. Where no synchroniser runs, the command fails, or does the work itself with --once. It then reads BITRIX24_WEBHOOK_URL and the other BITRIX24_ variables of docs/configuration.md; one that is not set means what the mirror was made with, except with --remap. Values that differ from those of the mirror are refused without --remap.',
		)
		.examples('contacts sync --full', 'contacts sync --once', 'contacts sync --contact 4711', 'contacts sync --remap')
		.action(async (options: SyncOptions) => {
			const { contact, confirmMassDelete, remap } = options;
			if (contact !== undefined && !isId(contact))
				throw new UsageError('--contact takes the ID of a contact in the CRM, a positive integer.');
			if (confirmMassDelete !== undefined && !isId(confirmMassDelete))
				throw new UsageError('--confirm-mass-delete takes the number of a pass, which "contacts sync status" shows.');
			if (contact !== undefined && (remap || options.full || confirmMassDelete !== undefined))
				throw new UsageError(
					'--contact reads one contact: --full, --remap and --confirm-mass-delete concern all of them.',
				);
			// Loaded only here, so that other commands do not load the synchroniser.
			const { runSync } = await import('../sync-run.js');
			await runSync(environment, { ...options, once: options.once || remap || false });
		});

	sync
		.command('status')
		.description('show when the mirror was last equal to the CRM, what is in progress, and what blocks it')
		.option('--json', 'print the record as JSON')
		.examples('contacts sync status')
		.action(async (_options: OutputOptions, command: Command) => {
			// "sync" also has this option, and parses it first.
			const options = command.optsWithGlobals<OutputOptions>();
			const { printSyncStatus } = await import('../sync-status.js');
			await printSyncStatus(environment, options);
		});
}
