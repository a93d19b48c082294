import { migrate } from '@contacts/common/database/migrate.js';
import { type RoleUser, roles, setRolePasswords } from '@contacts/common/database/roles.js';
import type { Command } from 'commander';
import { findDatabaseUrl } from '../connection.js';
import { type OutputOptions, printResult } from '../output.js';

/** The variables that give the database roles their passwords. */
const passwordVariables: Record<RoleUser, string> = {
	'personal-contacts': 'PERSONAL_CONTACTS_DATABASE_PASSWORD',
	'company-contacts': 'COMPANY_CONTACTS_DATABASE_PASSWORD',
	'company-contacts-sync': 'COMPANY_CONTACTS_SYNC_DATABASE_PASSWORD',
	operator: 'OPERATOR_DATABASE_PASSWORD',
};

export function addMigrateCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('migrate')
		.description('bring the database schema up to date; safe to run at any time and by several at once')
		.option('--json', 'print the result as JSON')
		.addHelpText(
			'after',
			`\nConnect as the owner of the database. It makes a role for each service and for the operator, which can log in once they\nhave a password: set ${Object.values(passwordVariables).join(', ')}.`,
		)
		.action(async (options: OutputOptions) => {
			const url = await findDatabaseUrl(environment);
			const applied = await migrate(url);
			const passwords = Object.entries(passwordVariables).flatMap(([user, variable]) => {
				const password = environment[variable];
				return password ? [[user as RoleUser, password] as const] : [];
			});
			await setRolePasswords(url, Object.fromEntries(passwords));
			const logins = passwords.map(([user]) => roles[user]);
			const sentences = [applied.length === 0 ? 'The schema is up to date.' : `Applied: ${applied.join(', ')}.`];
			if (logins.length > 0) sentences.push(`Passwords set: ${logins.join(', ')}.`);
			printResult({ applied, logins }, sentences.join(' '), options);
		});
}
