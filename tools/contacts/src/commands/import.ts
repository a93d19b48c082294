import { contactColumnNames } from '@contacts/company-contacts/company-contact-columns.sql.js';
import { Option } from 'commander';
import type { Command } from '../command.js';
import type { ImportCommandOptions } from '../import/run-import.js';

export function addImportCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('import')
		.argument('<file>', 'CSV, JSON (an array) or NDJSON, in UTF-8')
		.description('add and update company contacts from a file, matched by bitrix_id')
		.addOption(
			new Option('--format <format>', 'format of the file, if its name does not show it').choices([
				'csv',
				'json',
				'ndjson',
			]),
		)
		.option('--country <code>', 'read phone numbers without a plus as numbers of this country (ISO code, such as DE)')
		.option('--dry-run', 'check every record and write nothing')
		.option('--json', 'print the summary as JSON')
		.addHelpText(
			'after',
			`\nFields: bitrix_id (required), ${contactColumnNames.join(', ')}.\n` +
				'A column or field that the file lacks keeps what is stored; an empty one clears it. trouble_contact is "true" or empty.\n' +
				'A wrong record is reported with its line and left out; the others are saved, and the exit code is 1. A file without\n' +
				'records fails. Importing a file again changes nothing.',
		)
		.examples('contacts import contacts.csv --dry-run', 'contacts import export.ndjson --country DE')
		.action(async (path: string, options: ImportCommandOptions) => {
			const { runImport } = await import('../import/run-import.js');
			await runImport(environment, path, options);
		});
}
