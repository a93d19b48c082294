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
import { type ConfirmOptions, confirm } from '../confirm.js';
import { withDatabase } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { isId } from '../numbers.js';
import { counted, type OutputOptions, printResult, writeNote } from '../output.js';
import { recordOperation } from '../projects.sql.js';
import { markIncomplete, streams } from '../streams.js';
import { noRecords, type SourceRecord } from './read-records.js';
import { type Format, withRecords } from './source-file.js';
import { RecordError, toContact } from './to-contact.js';

export interface ImportCommandOptions extends OutputOptions, ConfirmOptions {
	format?: Format;
	country?: string;
	dryRun?: boolean;
}

/** The columns of a file of contacts. `id` is the service's own and ignored. */
export const contactColumns = { names: ['id', 'bitrix_id', ...contactColumnNames], required: 'bitrix_id' };

const mirrorWarning =
	'A CRM is mirrored into this database: its next full pass overwrites the imported contacts, and deletes those that the CRM lacks or, if they are many, raises an alarm.';

/** `contacts import` */
export async function runImport(
	environment: NodeJS.ProcessEnv,
	path: string,
	{ format, country: given, dryRun = false, ...options }: ImportCommandOptions,
): Promise<void> {
	const country = given?.toUpperCase();
	if (country !== undefined && !isCountry(country))
		throw new UsageError('--country takes an ISO country code, such as DE.');
	const { failure, ...summary } = await withRecords(path, format, contactColumns, async (records) => {
		if (dryRun) return importContacts(undefined, records, country);
		return withDatabase(environment, async (sql) => {
			const { configuration, last_success_at } = await readState(sql);
			if (configuration !== null || last_success_at !== null) await confirm(mirrorWarning, options);
			// A killed import has saved some contacts, and never records its counts.
			await recordOperation(sql, 'contacts import started', { file: basename(path) });
			const result = await importContacts(sql, records, country);
			const { reasons: _, failure, ...counts } = result;
			const details = { file: basename(path), ...counts, ...(failure === undefined ? {} : { broken_off: true }) };
			await recordOperation(sql, 'contacts imported', details);
			// Without a CRM no synchroniser does it.
			await pruneTombstones(sql);
			return result;
		});
	});
	if (summary.records > 0) printResult(summary, describe(summary, dryRun), options);
	if (failure !== undefined) throw failure;
	if (summary.refused > 0) markIncomplete();
}

export interface ImportSummary {
	records: number;
	accepted: number;
	refused: number;
	/** How often each reason was given. */
	reasons: Record<string, number>;
	/** The numbers of written contacts. A contact that is already stored with the same values is in neither. */
	created: number;
	changed: number;
}

function describe({ records, accepted, refused, created, changed, reasons }: ImportSummary, dryRun: boolean): string[] {
	const written = dryRun ? 'nothing was written' : `${counted(created, 'contact')} new, ${changed} changed`;
	// A terminal shows the line of each record above.
	const shown = Object.entries(reasons).filter(([, times]) => times > 1 || !streams().stderr.isTTY);
	const list = shown.map(([reason, times]) => `  ${times} × ${reason}`);
	return [`${counted(records, 'record')}: ${accepted} good, ${refused} refused; ${written}.`, ...list];
}

/** The limits of one statement: contacts, and characters, which the last contact may exceed. */
const maxBatch = { contacts: 500, characters: 4_000_000 };

/**
 * Saves the contacts of a file, batch by batch, in constant memory. Of two records with the same `bitrix_id` the later one
 * wins for the fields that it has. Wrong records are refused with a note, and the others saved.
 *
 * @param sql undefined: only checks the records
 * @returns what was done, and why not more, when the file has no records or can't be read to its end
 */
export async function importContacts(
	sql: Sql | undefined,
	records: AsyncIterable<SourceRecord>,
	country?: CountryCode,
): Promise<ImportSummary & { failure?: CommandError }> {
	const summary: ImportSummary = { records: 0, accepted: 0, refused: 0, reasons: {}, created: 0, changed: 0 };
	let batch = new Map<number, CompanyContactFields>();
	let characters = 0;

	async function flush(): Promise<void> {
		if (sql !== undefined && batch.size > 0) {
			await sql`begin`;
			// An absent column keeps what is stored, also if somebody else writes it at this moment.
			await sql`lock table company_contacts in share row exclusive mode`;
			const { created, changed } = await saveCompanyContacts(sql, [...batch.values()]);
			await sql`commit`;
			summary.created += created;
			summary.changed += changed;
		}
		batch = new Map();
		characters = 0;
	}

	let failure: CommandError | undefined;
	try {
		for await (const record of records) {
			summary.records++;
			const contact = 'error' in record ? record.error : accept(record.fields, country);
			if (typeof contact === 'string') {
				summary.refused++;
				summary.reasons[contact] = (summary.reasons[contact] ?? 0) + 1;
				await writeNote(`${placeOf(record)}: ${contact}`);
				continue;
			}
			summary.accepted++;
			characters += lengthOf(contact);
			batch.set(contact.bitrix_id, { ...batch.get(contact.bitrix_id), ...contact });
			if (batch.size >= maxBatch.contacts || characters >= maxBatch.characters) await flush();
		}
		if (summary.records === 0) failure = noRecords();
	} catch (error) {
		if (!(error instanceof CommandError)) throw error;
		failure = error;
	}
	await flush();
	return failure === undefined ? summary : { ...summary, failure };
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
