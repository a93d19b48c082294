import type { Command } from '../command.js';
import { findDatabaseUrl } from '../connection.js';
import { CommandError } from '../errors.js';
import { type OutputOptions, printNote, printResult } from '../output.js';

export function addMigrateCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('migrate')
		.description('bring the database schema and all rights up to date; safe to run at any time and by several at once')
		.option('--json', 'print the result as JSON')
		.addHelpText(
			'after',
			'\nConnect as the owner of the database. A superuser runs packages/common/owner.sql before, which creates the owner and\nthe roles of the services.',
		)
		.examples('contacts migrate')
		.action(async (options: OutputOptions) => {
			const { migrate } = await import('@contacts/common/database/migrate.js');
			const url = await findDatabaseUrl(environment);
			const applied = await migrate(url, undefined, { onWaiting: printNote }).catch(explain);
			const text = applied.length === 0 ? 'The schema is up to date.' : `Applied: ${applied.join(', ')}.`;
			printResult({ applied }, text, options);
		});
}

function explain(error: { code?: string }): never {
	if (error.code !== '42501') throw error;
	throw new CommandError('Only the owner of the database can migrate it: DATABASE_URL names another user.');
}
