import type { Command } from '../command.js';
import { type ConfirmOptions, confirm, yesOption } from '../confirm.js';
import { withDatabase } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { type OutputOptions, printRecords, printResult } from '../output.js';
import { noProject } from '../projects.js';
import { insertProject, projectCode, readProjects, setProjectEnabled } from '../projects.sql.js';

export function addProjectCommands(program: Command, environment: NodeJS.ProcessEnv): void {
	const project = program.command('project').description('projects: the API clients of the services');

	project
		.command('create')
		.argument('<code>', 'lower-case letters, digits, "-" and "_", at most 63')
		.description('create a project')
		.option('--sandbox', 'a project to test with: it sees invented contacts, never a real one')
		.option('--json', 'print the result as JSON')
		.examples('contacts project create acme', 'contacts project create acme-test --sandbox')
		.action(async (code: string, { sandbox = false, ...options }: OutputOptions & { sandbox?: boolean }) => {
			if (!projectCode.test(code)) {
				throw new UsageError(
					'A project code begins with a-z or 0-9 and holds a-z, 0-9, "-" and "_", at most 63 of them.',
				);
			}
			const created = await withDatabase(environment, (sql) => insertProject(sql, code, sandbox));
			if (!created) throw new CommandError(`There is a project "${code}" already.`);
			printResult(
				{ code, ...(sandbox ? { sandbox } : {}) },
				`Created ${sandbox ? 'sandbox ' : ''}project ${code}. Give it a key: contacts key create ${code}`,
				options,
			);
		});

	project
		.command('list')
		.description('list all projects; times are in UTC')
		.option('--json', 'print the records as JSON')
		.examples('contacts project list')
		.action(async (options: OutputOptions) => {
			const records = await withDatabase(environment, readProjects);
			await printRecords(records, ['code', 'state', 'live_keys', 'sandbox', 'created_at'], options);
		});

	project
		.command('disable')
		.argument('<code>')
		.description('refuse every key of a project, within a second')
		.option(...yesOption)
		.option('--json', 'print the result as JSON')
		.examples('contacts project disable acme')
		.action(async (code: string, options: OutputOptions & ConfirmOptions) => {
			const consequence = `Every key of ${code} will be refused until the project is enabled again.`;
			await confirm(consequence, { unattended: 'go on', ...options });
			await setEnabled(code, false, options);
		});

	project
		.command('enable')
		.argument('<code>')
		.description('accept the keys of a project again')
		.option('--json', 'print the result as JSON')
		.examples('contacts project enable acme')
		.action((code: string, options: OutputOptions) => setEnabled(code, true, options));

	async function setEnabled(code: string, enabled: boolean, options: OutputOptions): Promise<void> {
		const found = await withDatabase(environment, (sql) => setProjectEnabled(sql, code, enabled));
		if (!found) throw noProject(code);
		const state = enabled ? 'enabled' : 'disabled';
		printResult({ code, state }, `Project ${code} is ${state}.`, options);
	}
}
