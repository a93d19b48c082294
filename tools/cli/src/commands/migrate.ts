import { migrate } from '@contacts/common/database/migrate.js';
import type { Command } from 'commander';
import { findDatabaseUrl } from '../connection.js';
import { CommandError } from '../errors.js';
import { type Context, examples } from '../output.js';

export function addMigrateCommand(program: Command, { environment, output }: Context): void {
	program
		.command('migrate')
		.summary('bring the database schema and all rights up to date')
		.description(
			'Brings the database schema and all rights up to date. It is safe to run at any time and by several at once. Connect as the owner of the database. A superuser runs packages/common/owner.sql in it before, which creates the owner and the roles of the services.',
		)
		.addHelpText('after', examples('contacts migrate'))
		.action(async () => {
			const applied = await migrate(findDatabaseUrl(environment), undefined, { onWaiting: output.note }).catch(explain);
			output.print(applied.length === 0 ? 'The schema is up to date.' : `Applied: ${applied.join(', ')}.`);
		});
}

function explain(error: { code?: string }): never {
	if (error.code !== '42501') throw error;
	throw new CommandError(
		'Only the owner of the database can migrate it, contacts_owner once a superuser has run packages/common/owner.sql in it. DATABASE_URL names another user.',
	);
}
