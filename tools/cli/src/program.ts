import { trimmed } from '@contacts/common/process/config.js';
import { version } from '@contacts/common/process/version.js';
import { Command, CommanderError } from 'commander';
import { addAuditCommand } from './commands/audit.js';
import { addDoctorCommand } from './commands/doctor.js';
import { addImportCommand } from './commands/import.js';
import { addKeyCommands } from './commands/key.js';
import { addMigrateCommand } from './commands/migrate.js';
import { addPersonCommands } from './commands/person.js';
import { addProjectCommands } from './commands/project.js';
import { addSubscriptionCommands } from './commands/subscription.js';
import { addSyncCommand } from './commands/sync.js';
import { describeError, exitCodeOf, UsageError } from './errors.js';
import { type Context, createOutput, examples, type Output, type Streams } from './terminal/output.js';

/** The operator's command. It throws instead of ending the process. */
export function createProgram(
	environment: NodeJS.ProcessEnv,
	streams: Streams = process,
	output: Output = createOutput(streams),
): Command {
	const context: Context = { environment, stdin: streams.stdin, output };
	const program = new Command('contacts')
		.description(
			'Operates the contact services: schema, projects, API keys, subscriptions and company contacts. It works on the database in DATABASE_URL, or on the local one while "start" runs. Times are in UTC.',
		)
		.version(version, '--version', 'print the version of this release')
		.exitOverride()
		// The built-in one knows only the first word.
		.helpCommand(false)
		.configureOutput({
			writeOut: (text) => void streams.stdout.write(text),
			writeErr: (text) => void streams.stderr.write(text),
			// It may contain typed text.
			outputError: (text) => text.trimEnd().split('\n').map(output.note),
		})
		.addHelpText(
			'after',
			'\nExit codes: 0 success, 1 failure, 2 wrong usage, 130 and 143 SIGINT and SIGTERM,\n141 the reader closed the output.',
		);
	addMigrateCommand(program, context);
	addProjectCommands(program, context);
	addKeyCommands(program, context);
	addAuditCommand(program, context);
	addSubscriptionCommands(program, context);
	addPersonCommands(program, context);
	addSyncCommand(program, context);
	addImportCommand(program, context);
	addDoctorCommand(program, context);
	addHelpCommand(program);
	return program;
}

function addHelpCommand(program: Command): void {
	program
		.command('help')
		.argument('[command...]')
		.description('show the help of a command')
		.addHelpText('after', examples('contacts help key create'))
		.action((words: string[]) => {
			let command = program;
			for (const word of words) {
				const found = command.commands.find((sub) => sub.name() === word);
				if (found === undefined) throw new UsageError(`There is no command "${words.join(' ')}": contacts --help`);
				command = found;
			}
			command.outputHelp();
		});
}

/**
 * Runs the operator's command to its end.
 *
 * @param args the arguments after `contacts`
 * @returns its exit code: 0 on success, 1 on failure, 2 on wrong usage
 */
export async function runContacts(args: string[], given: NodeJS.ProcessEnv, streams: Streams): Promise<number> {
	const environment = trimmed(given);
	const output = createOutput(streams);
	try {
		await createProgram(environment, streams, output).parseAsync(args, { from: 'user' });
		return 0;
	} catch (error) {
		// Commander has printed its own errors.
		if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
		output.note(`error: ${describeError(error, environment)}`);
		return exitCodeOf(error);
	}
}
