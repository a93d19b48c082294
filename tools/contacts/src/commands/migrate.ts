import type { RoleUser } from '@contacts/common/database/roles.js';
import type { Command } from '../command.js';
import { findDatabaseUrl } from '../connection.js';
import { UsageError } from '../errors.js';
import { type OutputOptions, printResult } from '../output.js';

/** The variables with the passwords of the database roles. */
const passwordVariables: Record<RoleUser, string> = {
	'personal-contacts': 'PERSONAL_CONTACTS_DATABASE_PASSWORD',
	'company-contacts': 'COMPANY_CONTACTS_DATABASE_PASSWORD',
	'company-contacts-sync': 'COMPANY_CONTACTS_SYNC_DATABASE_PASSWORD',
	operator: 'OPERATOR_DATABASE_PASSWORD',
	privacy: 'PRIVACY_DATABASE_PASSWORD',
};

export function addMigrateCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('migrate')
		.description('bring the database schema up to date; safe to run at any time and by several at once')
		.option('--to <number>', 'stop after this migration, for a backup of an earlier release')
		.option('--json', 'print the result as JSON')
		.addHelpText(
			'after',
			`\nConnect as the owner of the database. It creates a role for each service, one for the operator and one for\nrequests of persons. A role can log in once it has a password: set ${Object.values(passwordVariables).join(', ')}.`,
		)
		.examples('contacts migrate', 'OPERATOR_DATABASE_PASSWORD=… contacts migrate')
		.action(async ({ to, ...options }: OutputOptions & { to?: string }) => {
			const { migrate } = await import('@contacts/common/database/migrate.js');
			const { roles, setRolePasswords } = await import('@contacts/common/database/roles.js');
			const last = to === undefined ? undefined : await parseSchema(to);
			const url = await findDatabaseUrl(environment);
			const applied = await migrate(url, last);
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

async function parseSchema(given: string): Promise<number> {
	const { newestSchema } = await import('@contacts/common/database/migrate.js');
	const newest = await newestSchema();
	if (!/^[1-9][0-9]{0,5}$/.test(given) || Number(given) > newest)
		throw new UsageError(`--to takes the number of a migration, from 1 to ${newest}.`);
	return Number(given);
}
