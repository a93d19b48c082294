import { insertProject, projectCode, readProjects, setProjectEnabled } from '@contacts/common/auth/projects.sql.js';
import type { Command } from 'commander';
import { withDatabase } from '../connection.js';
import { Failure, UsageError } from '../failure.js';
import { type OutputOptions, printRecords, printResult } from '../output.js';

export function addProjectCommands(program: Command, environment: NodeJS.ProcessEnv): void {
	const project = program.command('project').description('projects: the API clients of the services');

	project
		.command('create')
		.argument('<code>', 'lower-case letters, digits, "-" and "_", at most 63')
		.description('create a project')
		.option('--json', 'print the result as JSON')
		.action(async (code: string, options: OutputOptions) => {
			if (!projectCode.test(code)) {
				throw new UsageError(
					'A project code begins with a-z or 0-9 and holds a-z, 0-9, "-" and "_", at most 63 of them.',
				);
			}
			const created = await withDatabase(environment, (sql) => insertProject(sql, code));
			if (!created) throw new Failure(`There is a project "${code}" already.`);
			printResult({ code }, `Created project ${code}. Give it a key: contacts key create ${code}`, options);
		});

	project
		.command('list')
		.description('list all projects')
		.option('--json', 'print the records as JSON')
		.action(async (options: OutputOptions) => {
			const records = await withDatabase(environment, readProjects);
			printRecords(records, ['code', 'state', 'live_keys', 'created_at'], options);
		});

	for (const enabled of [false, true]) {
		const word = enabled ? 'enable' : 'disable';
		project
			.command(word)
			.argument('<code>')
			.description(
				enabled ? 'let the keys of a project be used again' : 'refuse every key of a project, within a second',
			)
			.option('--json', 'print the result as JSON')
			.action(async (code: string, options: OutputOptions) => {
				const found = await withDatabase(environment, (sql) => setProjectEnabled(sql, code, enabled));
				if (!found) throw new Failure(`There is no project "${code}": contacts project list shows all.`);
				printResult({ code, state: `${word}d` }, `Project ${code} is ${word}d.`, options);
			});
	}
}
