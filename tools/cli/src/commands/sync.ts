import type { Command } from 'commander';
import { positiveInteger } from '../arguments.js';
import type { SyncOptions } from '../sync/sync.js';
import { type Context, examples, type OutputOptions } from '../terminal/output.js';

export function addSyncCommand(program: Command, context: Context): void {
	const sync = program
		.command('sync')
		.summary('have the company contacts synchronised with Bitrix24')
		.description(
			'Has the company contacts synchronised with Bitrix24. The synchroniser that runs does it, and this command waits for the outcome. A request counts for ten minutes, and Ctrl-C takes back one that has not begun. Where no synchroniser runs, the command fails, or does the work itself with --once. It then reads the BITRIX24_ variables of docs/configuration.md, as the synchroniser does.',
		)
		.option('--once', 'do it here if no synchroniser runs')
		.option('--full', 'begin a full run from the first contact, even if none is due')
		.option(
			'--confirm-mass-delete <run>',
			'delete and empty as many contacts as this full run has held',
			positiveInteger('--confirm-mass-delete'),
		)
		.option('--remap', 'read every contact again, here, for another CRM, other fields or another country')
		.option('--json', 'print JSON')
		.addHelpText('after', examples('contacts sync --full', 'contacts sync --once', 'contacts sync --remap'))
		.action(async (options: SyncOptions) => {
			// Loaded only here, so that other commands do not load the synchroniser.
			const { runSync } = await import('../sync/sync.js');
			await runSync(context, options);
		});

	sync
		.command('status')
		.description('show when the mirror was last equal to the CRM, what is in progress, and what blocks it')
		.option('--json', 'print JSON')
		.addHelpText('after', examples('contacts sync status'))
		.action(async (_options: OutputOptions, command: Command) => {
			const { printSyncStatus } = await import('../sync/sync.js');
			// "sync" also has this option, and parses it first.
			await printSyncStatus(context, command.optsWithGlobals<OutputOptions>());
		});
}
