import { insertProject, setProjectEnabled } from '@contacts/common/auth/projects.sql.js';
import type { Command } from 'commander';
import { withDatabase } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { changeKeys, noWait, untilInForce, type WaitOptions } from '../in-force.js';
import { noProject, readProjects } from '../sql/keys.sql.js';
import { type Context, examples, type OutputOptions } from '../terminal/output.js';

/** The format of a project code. */
const projectCode = /^[a-z0-9][a-z0-9_-]{0,62}$/;

export function addProjectCommands(program: Command, { environment, output }: Context): void {
	const project = program.command('project').description('projects: the API clients of the services');

	project
		.command('create')
		.argument('<code>', 'lower-case letters, digits, "-" and "_", at most 63')
		.description('create a project')
		.option('--sandbox', 'a project to test with: it sees invented contacts, never a real one')
		.option(...noWait)
		.addHelpText('after', examples('contacts project create acme', 'contacts project create acme-test --sandbox'))
		.action(async (code: string, { sandbox = false, ...options }: WaitOptions & { sandbox?: boolean }) => {
			if (!projectCode.test(code))
				throw new UsageError(
					'A project code begins with a-z or 0-9 and holds a-z, 0-9, "-" and "_", at most 63 of them.',
				);
			const created = await changeKeys(environment, (sql) => insertProject(sql, code, sandbox));
			if (!created) throw new CommandError(`There is a project "${code}" already.`);
			output.print(`Created project ${code}. Give it a key: contacts key create ${code}`);
			await untilInForce(output, options);
		});

	project
		.command('list')
		.description('list all projects')
		.option('--json', 'print JSON')
		.addHelpText('after', examples('contacts project list'))
		.action(async (options: OutputOptions) => {
			const projects = await withDatabase(environment, readProjects);
			output.records(projects, ['code', 'state', 'live_keys', 'sandbox', 'created_at'], options);
		});

	for (const [name, state, description] of [
		['disable', 'disabled', 'refuse every key of a project, until it is enabled again'],
		['enable', 'enabled', 'accept the keys of a project again'],
	] as const)
		project
			.command(name)
			.argument('<code>')
			.description(description)
			.option(...noWait)
			.addHelpText('after', examples(`contacts project ${name} acme`))
			.action(async (code: string, options: WaitOptions) => {
				const found = await changeKeys(environment, (sql) => setProjectEnabled(sql, code, name === 'enable'));
				if (!found) throw noProject(code);
				output.print(`Project ${code} is ${state}.`);
				await untilInForce(output, options);
			});
}
