import type { Command } from '../command.js';
import { UsageError } from '../errors.js';
import type { OutputOptions } from '../output.js';
import type { SyncOptions } from '../sync-run.js';

export function addSyncCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	const sync = program
		.command('sync')
		.description('synchronise the company contacts with Bitrix24')
		.option('--once', 'run one pass, then exit')
		.option('--full', 'run a full pass from the first contact, even if none is due')
		.option('--dry-run', 'report what a full pass would change, and write nothing')
		.option('--contact <id>', 'read this one contact again')
		.option('--confirm-mass-delete', 'delete the contacts that are missing in the CRM, however many they are')
		.option('--remap', 'read every contact again, for another portal, other fields or another country')
		.option('--json', 'print the result as JSON')
		.addHelpText(
			'after',
			'\nIt reads BITRIX24_WEBHOOK_URL and the other BITRIX24_ variables of docs/configuration.md. Without --remap it refuses\n' +
				'values that differ from those of the mirror. Only one synchroniser works at a time. If one is running, this command\n' +
				'asks it to do the work, waits, and exits with its outcome. Ctrl-C cancels a request that has not started; work in\n' +
				'progress continues. Without any of the first six options this command runs until it is stopped, and fails if another\n' +
				'synchroniser is running.',
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
			if (options.contact !== undefined && (options.dryRun || options.full || options.confirmMassDelete)) {
				throw new UsageError(
					'--contact reads one contact: --dry-run, --full and --confirm-mass-delete concern all of them.',
				);
			}
			if (options.dryRun && options.confirmMassDelete) {
				throw new UsageError('--dry-run deletes nothing: it does not go with --confirm-mass-delete.');
			}
			const { dryRun, confirmMassDelete, remap } = options;
			const once = options.once || dryRun || options.contact !== undefined || confirmMassDelete || remap || false;
			if (options.json && !once && !options.full)
				throw new UsageError('--json prints the result of a pass: say --once too.');
			// Loaded only here, so that other commands do not load the synchroniser.
			const { runSync } = await import('../sync-run.js');
			await runSync(environment, { ...options, once });
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
