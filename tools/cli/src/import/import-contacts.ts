import { basename } from 'node:path';
import {
	type CompanyContactFields,
	contactColumnNames,
} from '@contacts/common/company-contacts/company-contact-columns.sql.js';
import { isCountry } from '@contacts/common/company-contacts/phone.js';
import { pruneTombstones, saveCompanyContacts } from '@contacts/common/company-contacts/save-company-contacts.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { readState } from '@contacts/crm-sync/sync.sql.js';
import type { CountryCode } from 'libphonenumber-js/min';
import { isId } from '../arguments.js';
import { withDatabase } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { type Context, counted, type Output, type OutputOptions } from '../output.js';
import { recordOperation } from '../projects.sql.js';
import { type Format, noRecords, readRecords, type SourceRecord } from './read-records.js';
import { RecordError, toContact } from './to-contact.js';

export interface ImportCommandOptions extends OutputOptions {
	format?: Format;
	country?: string;
	dryRun?: boolean;
	yes?: boolean;
}

/** The columns of a file of contacts. `id` is the service's own and ignored. */
export const contactColumns = { names: ['id', 'bitrix_id', ...contactColumnNames], required: 'bitrix_id' };

const mirrorWarning =
	'A CRM is mirrored into this database: its next full run overwrites the imported contacts, and deletes those that the CRM lacks or, if they are many, raises an alarm.';

/** `contacts import` */
export async function runImport(
	{ environment, stdin, output }: Context,
	path: string,
	{ format, country: given, dryRun = false, yes = false, ...options }: ImportCommandOptions,
): Promise<void> {
	const country = given?.toUpperCase();
	if (country !== undefined && !isCountry(country))
		throw new UsageError('--country takes an ISO country code, such as DE.');
	const records = readRecords(path, format, contactColumns, stdin);
	const work = async (sql: Sql): Promise<ImportResult> => {
		const { configuration, last_success_at } = await readState(sql);
		if (configuration !== null || last_success_at !== null) await output.confirm(mirrorWarning, yes);
		const file = basename(path);
		// A killed import has saved some contacts, and never records its counts.
		await recordOperation(sql, 'contacts import started', { file });
		const { failure, ...counts } = await importContacts(sql, records, output, country);
		const brokenOff = failure === undefined ? {} : { broken_off: true };
		await recordOperation(sql, 'contacts imported', { file, ...counts, ...brokenOff });
		// Without a CRM no synchroniser does it.
		await pruneTombstones(sql);
		return { ...counts, failure };
	};
	const { failure, ...counts } = dryRun
		? await importContacts(undefined, records, output, country)
		: await withDatabase(environment, work);
	const { accepted, refused, created, changed } = counts;
	const written = dryRun ? 'nothing was written' : `${counted(created, 'contact')} new, ${changed} changed`;
	const sentence = `${counted(counts.records, 'record')}: ${accepted} good, ${refused} refused; ${written}.`;
	if (counts.records > 0) output.result(counts, sentence, options);
	if (failure !== undefined) throw failure;
	if (refused > 0) throw new CommandError(`Refused records: ${refused}. Correct them and import the file again.`);
}

interface ImportResult {
	records: number;
	accepted: number;
	refused: number;
	/** The numbers of written contacts. A contact that is already stored with the same values is in neither. */
	created: number;
	changed: number;
	/** Why not more was done, when the file has no records or can't be read to its end. */
	failure: CommandError | undefined;
}

/** The limits of one statement: contacts, and characters, which the last contact may exceed. */
const maxBatch = { contacts: 500, characters: 4_000_000 };

/**
 * Saves the contacts of a file, batch by batch, in constant memory. Of two records with the same `bitrix_id` the later one
 * wins for the fields that it has. Wrong records are refused with a note, and the others saved.
 *
 * @param sql undefined: only checks the records
 */
export async function importContacts(
	sql: Sql | undefined,
	records: AsyncIterable<SourceRecord>,
	output: Pick<Output, 'note' | 'progress' | 'taken'>,
	country?: CountryCode,
): Promise<ImportResult> {
	const result: ImportResult = { records: 0, accepted: 0, refused: 0, created: 0, changed: 0, failure: undefined };
	let batch = new Map<number, CompanyContactFields>();
	let characters = 0;

	async function flush(): Promise<void> {
		if (sql !== undefined && batch.size > 0) {
			await sql`begin`;
			// An absent column keeps what is stored, also if somebody else writes it at this moment.
			await sql`lock table company_contacts in share row exclusive mode`;
			const { created, changed } = await saveCompanyContacts(sql, [...batch.values()]);
			await sql`commit`;
			result.created += created;
			result.changed += changed;
		}
		batch = new Map();
		characters = 0;
	}

	try {
		for await (const record of records) {
			result.records++;
			output.progress(`${counted(result.records, 'record')}: ${result.accepted} good, ${result.refused} refused`);
			const contact = 'error' in record ? record.error : accept(record.fields, country);
			if (typeof contact === 'string') {
				result.refused++;
				output.note(`${placeOf(record)}: ${contact}`);
				await output.taken();
				continue;
			}
			result.accepted++;
			characters += lengthOf(contact);
			batch.set(contact.bitrix_id, { ...batch.get(contact.bitrix_id), ...contact });
			if (batch.size >= maxBatch.contacts || characters >= maxBatch.characters) await flush();
		}
		if (result.records === 0) result.failure = noRecords();
	} catch (error) {
		if (!(error instanceof CommandError)) throw error;
		result.failure = error;
	}
	await flush();
	return result;
}

/** The approximate size of a contact in memory, in characters. Each company ID is a string. */
function lengthOf(contact: CompanyContactFields): number {
	return contactColumnNames.reduce((sum, name) => {
		const value = contact[name];
		return sum + (typeof value === 'string' ? value.length : Array.isArray(value) ? 20 * value.length : 0);
	}, 0);
}

/** Such as `line 13, bitrix_id 9012`. */
function placeOf(record: SourceRecord): string {
	const id = 'fields' in record ? String(record.fields.bitrix_id ?? '').trim() : '';
	return `line ${record.line}${isId(id) ? `, bitrix_id ${id}` : ''}`;
}

/** @returns the contact, or why it is refused */
function accept(fields: Record<string, unknown>, country?: CountryCode): CompanyContactFields | string {
	try {
		return toContact(fields, country);
	} catch (error) {
		if (error instanceof RecordError) return error.message;
		throw error;
	}
}
