import type { Command } from '../command.js';
import { findDatabaseUrl, withDatabase } from '../connection.js';
import { CommandError } from '../errors.js';
import { type OutputOptions, printNote, printResult } from '../output.js';

export function addMigrateCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('migrate')
		.description('bring the database schema and all rights up to date; safe to run at any time and by several at once')
		.option('--json', 'print the result as JSON')
		.notes(
			'Connect as the owner of the database. A superuser runs packages/common/owner.sql before, which creates the owner and the roles of the services.',
		)
		.examples('contacts migrate')
		.action(async (options: OutputOptions) => {
			const { migrate } = await import('@contacts/common/database/migrate.js');
			const url = await findDatabaseUrl(environment);
			const applied = await migrate(url, undefined, { onWaiting: printNote }).catch((error) =>
				explain(error, environment),
			);
			const text = applied.length === 0 ? 'The schema is up to date.' : `Applied: ${applied.join(', ')}.`;
			printResult({ applied }, text, options);
		});
}

async function explain(error: { code?: string }, environment: NodeJS.ProcessEnv): Promise<never> {
	if (error.code !== '42501') throw error;
	const { readOtherOwner } = await import('../doctor/check-database.js');
	const owner = await withDatabase(environment, readOtherOwner);
	if (owner !== undefined) throw new CommandError(`${owner.message} ${owner.advice}`);
	throw new CommandError('Only the owner of the database can migrate it: DATABASE_URL names another user.');
}
