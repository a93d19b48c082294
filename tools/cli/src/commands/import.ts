import { contactColumnNames } from '@contacts/common/company-contacts/company-contact-columns.sql.js';
import { Option } from 'commander';
import type { Command } from '../command.js';
import { yesOption } from '../confirm.js';
import type { ImportCommandOptions } from '../import/import-contacts.js';

export function addImportCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('import')
		.argument('<file>', 'CSV or NDJSON, in UTF-8; - for standard input')
		.description('add and update company contacts from a file, matched by bitrix_id')
		.addOption(
			new Option('--format <format>', 'format of the file, if its name does not show it').choices(['csv', 'ndjson']),
		)
		.option('--country <code>', 'read phone numbers without a plus as numbers of this country (ISO code, such as DE)')
		.option('--dry-run', 'check every record and write nothing')
		.option(...yesOption)
		.option('--json', 'print the summary as JSON')
		.notes(
			`Fields: bitrix_id (required), ${contactColumnNames.join(', ')}. The field id is ignored. CSV begins with a line of their names, separated by commas or semicolons.`,
			'A column or field that the file lacks keeps what is stored; an empty one clears it. trouble_contact is "true" or empty.',
			'A wrong record is reported with its line and left out; the others are saved, and the exit code is 1. A quote that is not closed ends the reading at its line; what was good before is saved. A file without records fails. Importing a file again changes nothing. Where a CRM is mirrored, the command asks first.',
		)
		.examples(
			'contacts import contacts.csv --dry-run',
			'contacts import export.ndjson --country DE',
			'gunzip --stdout contacts.csv.gz | contacts import - --format csv',
		)
		.action(async (path: string, options: ImportCommandOptions) => {
			const { runImport } = await import('../import/import-contacts.js');
			await runImport(environment, path, options);
		});
}
