import { contactColumnNames } from '@contacts/common/contacts/company-contact-columns.sql.js';
import type { Command } from 'commander';
import { type ContactImportOptions, importContacts } from '../import/contacts.js';
import { formatOption } from '../import/format.js';
import { type Context, examples } from '../terminal/output.js';

export function addImportCommand(program: Command, context: Context): void {
	program
		.command('import')
		.argument('<file>', 'CSV or NDJSON, in UTF-8; - for standard input')
		.summary('add and update company contacts from a file')
		.description(
			`Add and update company contacts from a file, matched by bitrix_id. Fields: bitrix_id (required), ${contactColumnNames.join(', ')}. The field id is ignored. CSV begins with a line of their names, separated by commas or semicolons. A column or field that the file lacks keeps what is stored; an empty one clears it. trouble_contact is "true", "false" or empty. A wrong record is reported with its line and left out; the others are saved, and the exit code is 1. A quote that is not closed at the end of a value ends the reading at its line; what was good before is saved. Importing a file again changes nothing.`,
		)
		.addOption(formatOption())
		.option('-y, --yes', 'do not ask where a CRM is mirrored, which overwrites the contacts again')
		.option('--json', 'print JSON')
		.addHelpText(
			'after',
			examples('contacts import contacts.csv', 'gunzip --stdout contacts.csv.gz | contacts import - --format csv'),
		)
		.action((path: string, options: ContactImportOptions) => importContacts(context, path, options));
}
