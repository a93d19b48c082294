import { basename } from 'node:path';
import {
	type CompanyContactFields,
	contactColumnNames,
} from '@contacts/common/company-contacts/company-contact-columns.sql.js';
import { pruneTombstones, saveCompanyContacts } from '@contacts/common/company-contacts/save-company-contacts.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { readState } from '@contacts/crm-sync/sync.sql.js';
import type { Command } from 'commander';
import { withDatabase } from '../connection.js';
import { CommandError } from '../errors.js';
import { formatOption, type ReadOptions, readRecords, type SourceRecord } from '../import/read-records.js';
import { type ReadResult, saveRecords } from '../import/save-records.js';
import { toContact } from '../import/to-contact.js';
import { type Context, counted, examples, type Output } from '../output.js';
import { recordOperation } from '../projects.sql.js';

/** The columns of a file of contacts. `id` is the service's own and ignored. */
export const contactColumns = { names: ['id', 'bitrix_id', ...contactColumnNames], required: 'bitrix_id' };

const mirrorWarning =
	'A CRM is mirrored into this database: its next full run overwrites the imported contacts, and deletes those that the CRM lacks or, if they are many, raises an alarm.';

export function addImportCommand(program: Command, { environment, stdin, output }: Context): void {
	program
		.command('import')
		.argument('<file>', 'CSV or NDJSON, in UTF-8; - for standard input')
		.summary('add and update company contacts from a file')
		.description(
			`Adds and updates company contacts from a file, matched by bitrix_id. Fields: bitrix_id (required), ${contactColumnNames.join(', ')}. The field id is ignored. CSV begins with a line of their names, separated by commas or semicolons. A column or field that the file lacks keeps what is stored; an empty one clears it. trouble_contact is "true" or empty. A wrong record is reported with its line and left out; the others are saved, and the exit code is 1. A quote that is not closed at the end of a value ends the reading at its line; what was good before is saved. Importing a file again changes nothing.`,
		)
		.addOption(formatOption())
		.option('-y, --yes', 'do not ask where a CRM is mirrored, which overwrites the contacts again')
		.option('--json', 'print JSON')
		.addHelpText(
			'after',
			examples('contacts import contacts.csv', 'gunzip --stdout contacts.csv.gz | contacts import - --format csv'),
		)
		.action(async (path: string, { format, yes, ...options }: ReadOptions & { yes?: boolean }) => {
			const source = readRecords(path, format, contactColumns, stdin);
			const { failure, ...counts } = await withDatabase(environment, async (sql) => {
				const { configuration, last_success_at } = await readState(sql);
				if (configuration !== null || last_success_at !== null) await output.confirm(mirrorWarning, yes);
				const file = basename(path);
				// A killed import has saved some contacts, and never records its counts.
				await recordOperation(sql, 'contacts import started', { file });
				const { failure, ...counts } = await importContacts(sql, source, output);
				const brokenOff = failure === undefined ? {} : { broken_off: true };
				await recordOperation(sql, 'contacts imported', { file, ...counts, ...brokenOff });
				// Without a CRM no synchroniser does it.
				await pruneTombstones(sql);
				return { ...counts, failure };
			});
			const { records, accepted, refused, created, changed } = counts;
			const sentence = `${counted(records, 'record')}: ${accepted} good, ${refused} refused; ${counted(created, 'contact')} new, ${changed} changed.`;
			if (records > 0) output.result(counts, sentence, options);
			if (failure !== undefined) throw failure;
			if (refused > 0) throw new CommandError(`Refused records: ${refused}. Correct them and import the file again.`);
		});
}

interface ImportResult extends ReadResult {
	/** The numbers of written contacts. A contact that is already stored with the same values is in neither. */
	created: number;
	changed: number;
}

/** The number of contacts that one statement saves. */
const maxBatch = 500;

/**
 * Saves the contacts of a file. Of two records with the same `bitrix_id` the later one wins for the fields that it has. Wrong records
 * are refused with a note, and the others saved.
 */
export async function importContacts(
	sql: Sql,
	source: AsyncIterable<SourceRecord>,
	output: Output,
): Promise<ImportResult> {
	const written = { created: 0, changed: 0 };
	const result = await saveRecords(source, output, maxBatch, toContact, async (batch) => {
		const contacts = new Map<number, CompanyContactFields>();
		for (const contact of batch) contacts.set(contact.bitrix_id, { ...contacts.get(contact.bitrix_id), ...contact });
		await sql`begin`;
		// An absent column keeps what is stored, also if somebody else writes it at this moment.
		await sql`lock table company_contacts in share row exclusive mode`;
		const { created, changed } = await saveCompanyContacts(sql, [...contacts.values()]);
		await sql`commit`;
		written.created += created;
		written.changed += changed;
	});
	return { ...result, ...written };
}
