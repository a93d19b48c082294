import type { Sql } from '@contacts/common/database/client.js';
import {
	type CompanyContactFields,
	contactColumnNames,
} from '@contacts/company-contacts/company-contact-columns.sql.js';
import { type SaveResult, saveCompanyContacts } from '@contacts/company-contacts/save-company-contacts.sql.js';
import type { CountryCode } from 'libphonenumber-js/min';
import { CommandError } from '../errors.js';
import { noRecords, type SourceRecord } from './record.js';
import { RecordError, toContact } from './to-contact.js';

export interface ImportOptions {
	country?: CountryCode;
	/** Checks every record and writes nothing. */
	dryRun: boolean;
	/** Called for every record that is refused. */
	onRecordError(line: number, reason: string): void;
	/** Called after every record. */
	onRecord(records: number): void;
	/** Called before a CommandError, after earlier records are saved. */
	onBrokenOff?(summary: ImportSummary): Promise<void>;
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

/** The limits of one statement: contacts, and characters, which the last contact may exceed. */
const maxBatch = { contacts: 500, characters: 4_000_000 };

/**
 * Saves the contacts of a file, batch by batch, in constant memory. Of two records with the same `bitrix_id` the later one
 * wins for the fields that it has. Only wrong records are refused.
 *
 * @throws CommandError when the file has no records, or can't be read any further; earlier records are saved
 */
export async function importRecords(
	sql: Sql | undefined,
	records: AsyncIterable<SourceRecord>,
	options: ImportOptions,
): Promise<ImportSummary> {
	const summary: ImportSummary = { records: 0, accepted: 0, refused: 0, reasons: {}, created: 0, changed: 0 };
	let batch = new Map<number, CompanyContactFields>();
	let characters = 0;

	async function flush(): Promise<void> {
		if (sql === undefined || options.dryRun || batch.size === 0) return;
		const { created, changed }: SaveResult = await saveCompanyContacts(sql, [...batch.values()]);
		summary.created += created;
		summary.changed += changed;
	}

	try {
		for await (const record of records) {
			summary.records++;
			const result = 'error' in record ? record.error : accept(record.fields, options.country);
			if (typeof result === 'string') {
				summary.refused++;
				summary.reasons[result] = (summary.reasons[result] ?? 0) + 1;
				options.onRecordError(record.line, result);
			} else {
				summary.accepted++;
				characters += lengthOf(result);
				batch.set(result.bitrix_id, { ...batch.get(result.bitrix_id), ...result });
				if (batch.size >= maxBatch.contacts || characters >= maxBatch.characters) {
					await flush();
					batch = new Map();
					characters = 0;
				}
			}
			options.onRecord(summary.records);
		}
		if (summary.records === 0) throw noRecords();
	} catch (error) {
		if (!(error instanceof CommandError)) throw error;
		await flush();
		await options.onBrokenOff?.(summary);
		throw error;
	}
	await flush();
	return summary;
}

/** The approximate size of a contact in memory, in characters. Each company ID is a string. */
function lengthOf(contact: CompanyContactFields): number {
	return contactColumnNames.reduce((sum, name) => {
		const value = contact[name];
		return sum + (typeof value === 'string' ? value.length : Array.isArray(value) ? 20 * value.length : 0);
	}, 0);
}

function accept(fields: Record<string, unknown>, country?: CountryCode): CompanyContactFields | string {
	try {
		return toContact(fields, country);
	} catch (error) {
		if (error instanceof RecordError) return error.message;
		throw error;
	}
}
