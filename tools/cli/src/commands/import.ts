import { basename } from 'node:path';
import {
	contactColumnNames,
	type PartialContactRow,
} from '@contacts/common/company-contacts/company-contact-columns.sql.js';
import { pruneTombstones, saveCompanyContacts } from '@contacts/common/company-contacts/save-company-contacts.sql.js';
import { readState } from '@contacts/crm-sync/sync.sql.js';
import type { Command } from 'commander';
import { longWorkSettings, type Transaction, withTransactions } from '../connection.js';
import { CommandError } from '../errors.js';
import { formatOption, type ReadOptions, readerFor } from '../import/format.js';
import { withInput } from '../import/input.js';
import type { SourceRecord } from '../import/lines.js';
import { type ReadResult, recordEnd, saveRecords, withCount, withOutcome } from '../import/save-records.js';
import { toContact } from '../import/to-contact.js';
import { interruptible } from '../interrupt.js';
import { type Context, counted, examples, type Output } from '../output.js';
import { recordOperation } from '../projects.sql.js';

/** The columns of a file of contacts. `id` is the service's own and ignored. */
export const contactColumns = { names: ['id', 'bitrix_id', ...contactColumnNames], required: 'bitrix_id' };

const mirrorWarning =
	'A CRM is mirrored into this database: its next full run overwrites the imported contacts, and deletes those that the CRM lacks or, if they are many, raises an alarm.';

export function addImportCommand(program: Command, context: Context): void {
	const { environment, output } = context;
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
		.action(async (path: string, { format, yes, ...options }: ReadOptions & { yes?: boolean }) => {
			const read = readerFor(path, format);
			const { failure, ...counts } = await withInput(path, context.stdin, (input) =>
				withTransactions(
					environment,
					async (sql, transaction) => {
						const { configuration, last_success_at } = await readState(sql);
						if (configuration !== null || last_success_at !== null) await output.confirm(mirrorWarning, yes);
						const file = basename(path);
						const { failure, ...counts } = await interruptible(async (signal) => {
							// A killed import has saved some contacts, and never records its counts.
							await recordOperation(sql, 'contacts import started', { file });
							const source = read(input.read(signal), contactColumns);
							return importContacts(transaction, source, output, { signal, part: input.part });
						});
						await recordEnd(context, sql, 'contacts imported', { file, ...counts }, failure);
						// Without a CRM no synchroniser does it.
						// The next import does it when this connection is lost.
						if (failure === undefined) await pruneTombstones(sql).catch(() => undefined);
						return { ...counts, failure: withCount(failure, counts.accepted) };
					},
					// A sync run may hold the table for minutes.
					{ ...longWorkSettings, lock_timeout: 0 },
				),
			);
			const { records, accepted, refused, created, changed } = counts;
			const sentence = `${counted(records, 'record')}: ${accepted} good, ${refused} refused; ${counted(created, 'contact')} new, ${changed} changed.`;
			if (records > 0) output.result(withOutcome(counts, failure), sentence, options);
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
	transaction: Transaction,
	source: AsyncIterable<SourceRecord>,
	output: Output,
	reading: { signal: AbortSignal; part(): number | undefined },
): Promise<ImportResult> {
	const written = { created: 0, changed: 0 };
	async function save(batch: readonly PartialContactRow[]): Promise<void> {
		const contacts = new Map<number, PartialContactRow>();
		for (const contact of batch) contacts.set(contact.bitrix_id, { ...contacts.get(contact.bitrix_id), ...contact });
		const { created, changed } = await transaction(async (sql) => {
			// An absent column keeps what is stored, also if somebody else writes it at this moment.
			await sql`lock table company_contacts in share row exclusive mode`;
			return saveCompanyContacts(sql, [...contacts.values()]);
		});
		written.created += created;
		written.changed += changed;
	}
	const result = await saveRecords(source, output, { ...reading, maxBatch, convert: toContact, save });
	return { ...result, ...written };
}
