import { contactColumnNames } from '@contacts/common/company-contacts/company-contact-columns.sql.js';
import { type Command, Option } from 'commander';
import { type ImportCommandOptions, runImport } from '../import/import-contacts.js';
import { type Context, examples } from '../output.js';

export function addImportCommand(program: Command, context: Context): void {
	program
		.command('import')
		.argument('<file>', 'CSV or NDJSON, in UTF-8; - for standard input')
		.summary('add and update company contacts from a file')
		.description(
			`Adds and updates company contacts from a file, matched by bitrix_id. Fields: bitrix_id (required), ${contactColumnNames.join(', ')}. The field id is ignored. CSV begins with a line of their names, separated by commas or semicolons. A column or field that the file lacks keeps what is stored; an empty one clears it. trouble_contact is "true" or empty. A wrong record is reported with its line and left out; the others are saved, and the exit code is 1. A quote that is not closed at the end of a value ends the reading at its line; what was good before is saved. Importing a file again changes nothing.`,
		)
		.addOption(new Option('--format <format>', 'if the name does not show it').choices(['csv', 'ndjson']))
		.option('--country <code>', 'read phone numbers without a plus as numbers of this country (ISO code, such as DE)')
		.option('--dry-run', 'check every record and write nothing')
		.option('-y, --yes', 'do not ask where a CRM is mirrored, which overwrites the contacts again')
		.option('--json', 'print JSON')
		.addHelpText(
			'after',
			examples(
				'contacts import contacts.csv --dry-run',
				'contacts import export.ndjson --country DE',
				'gunzip --stdout contacts.csv.gz | contacts import - --format csv',
			),
		)
		.action((path: string, options: ImportCommandOptions) => runImport(context, path, options));
}
