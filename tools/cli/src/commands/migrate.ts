import { describeDatabaseError, errorCode } from '@contacts/common/database/errors.js';
import { migrate } from '@contacts/migrations/migrate.js';
import type { Command } from 'commander';
import { findDatabaseUrl } from '../connection.js';
import { CommandError } from '../errors.js';
import { type Context, examples } from '../terminal/output.js';

export function addMigrateCommand(program: Command, { environment, output }: Context): void {
	program
		.command('migrate')
		.summary('bring the database schema and all rights up to date')
		.description(
			'Bring the database schema and all rights up to date. It is safe to run at any time and by several at once. Connect as the owner of the database. On a new database connect once as a superuser, or as the provider’s administrator, and say --roles: this creates the owner and the roles of the services, which then need passwords (operations/postgres/passwords.sql).',
		)
		.option('--roles', 'first create the roles, and make contacts_owner the owner of everything')
		.addHelpText('after', examples('contacts migrate', 'contacts migrate --roles'))
		.action(async ({ roles: withRoles = false }: { roles?: boolean }) => {
			const options = { withRoles, onWaiting: output.note };
			const applied = await migrate(findDatabaseUrl(environment), undefined, options).catch((error) => {
				if (errorCode(error) !== '42501') throw error;
				throw new CommandError(describeDatabaseError(error, withRoles ? 'migrate --roles' : 'migrate'));
			});
			output.print(applied.length === 0 ? 'The schema is up to date.' : `Applied: ${applied.join(', ')}.`);
		});
}
