import { migrate } from '@contacts/common/database/migrate.js';
import type { Command } from 'commander';
import { findDatabaseUrl } from '../connection.js';
import { type OutputOptions, printResult } from '../output.js';

export function addMigrateCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('migrate')
		.description('bring the database schema up to date; safe to run at any time and by several at once')
		.option('--json', 'print the result as JSON')
		.action(async (options: OutputOptions) => {
			const applied = await migrate(await findDatabaseUrl(environment));
			const sentence = applied.length === 0 ? 'The schema is up to date.' : `Applied: ${applied.join(', ')}.`;
			printResult({ applied }, sentence, options);
		});
}
