import { version } from '@contacts/common/process/version.js';
import type { Command as CommanderCommand } from 'commander';
import { Command } from './command.js';
import { addAuditCommand } from './commands/audit.js';
import { addDoctorCommand } from './commands/doctor.js';
import { addImportCommand } from './commands/import.js';
import { addKeyCommands } from './commands/key.js';
import { addMigrateCommand } from './commands/migrate.js';
import { addPersonCommands } from './commands/person.js';
import { addProjectCommands } from './commands/project.js';
import { addSubscriptionCommands } from './commands/subscription.js';
import { addSyncCommand } from './commands/sync.js';
import { commanderOutput } from './output.js';

/** The operator's command. It throws instead of ending the process; `main.ts` turns that into exit codes. */
export function createProgram(environment: NodeJS.ProcessEnv): CommanderCommand {
	const program = new Command('contacts')
		.description('Operates the contact services: schema, projects, API keys, subscriptions and company contacts.')
		.version(version, '--version', 'print the version of this release')
		.exitOverride()
		.configureOutput(commanderOutput)
		.showHelpAfterError('(run with --help to see what it accepts)')
		.notes(
			'It works on the database in DATABASE_URL, or on the local one while "start" runs. Tables show times in UTC.',
			'At a terminal it asks before it deletes or ends something. Elsewhere "key revoke" and "project disable" do it, and the others need --yes.',
			'Exit codes: 0 success, 1 failure, 2 wrong usage, 130 and 143 SIGINT and SIGTERM, 141 the reader closed the output.',
		);
	addMigrateCommand(program, environment);
	addProjectCommands(program, environment);
	addKeyCommands(program, environment);
	addAuditCommand(program, environment);
	addSubscriptionCommands(program, environment);
	addPersonCommands(program, environment);
	addSyncCommand(program, environment);
	addImportCommand(program, environment);
	addDoctorCommand(program, environment);
	return program;
}
