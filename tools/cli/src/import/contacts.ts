import { basename } from 'node:path';
import {
	type ContactColumn,
	type ContactRow,
	contactColumnNames,
	firstCharacters,
	maxCharacters,
	type PartialContactRow,
} from '@contacts/common/contacts/company-contact-columns.sql.js';
import { cleanName } from '@contacts/common/contacts/name.js';
import { toE164 } from '@contacts/common/contacts/phone.js';
import { pruneTombstones, saveCompanyContacts } from '@contacts/common/contacts/save-company-contacts.sql.js';
import { isDecimalId } from '@contacts/common/schemas/fields.js';
import { readState } from '@contacts/crm-sync/mirror/state.sql.js';
import { isId } from '../arguments.js';
import { longWorkSettings, type Transaction, withTransactions } from '../connection.js';
import { CommandError } from '../errors.js';
import { interruptible } from '../terminal/interrupt.js';
import { type Context, counted } from '../terminal/output.js';
import { type ReadOptions, readerFor } from './format.js';
import { withInput } from './input.js';
import { checked, inParts, RecordError, recorded } from './parts.js';

/** The columns of a file of contacts. `id` is the service's own and ignored. */
export const contactColumns = { names: ['id', 'bitrix_id', ...contactColumnNames], required: 'bitrix_id' };

const mirrorWarning =
	'A CRM is mirrored into this database: its next full run overwrites the imported contacts, and deletes those that the CRM lacks or, if they are many, raises an alarm.';

export interface ContactImportOptions extends ReadOptions {
	/** Don't ask. */
	yes?: boolean;
}

/** Saves the good records of a file, and refuses the others. */
export async function importContacts(context: Context, path: string, options: ContactImportOptions): Promise<void> {
	const { environment, stdin, output } = context;
	const read = readerFor(path, options.format);
	const counts = { records: 0, accepted: 0, refused: 0, created: 0, changed: 0 };
	const summary = () =>
		`${counted(counts.records, 'record')}: ${counts.accepted} good, ${counts.refused} refused; ${counted(counts.created, 'contact')} new, ${counts.changed} changed.`;
	const work = { file: basename(path), counts, summary, options };
	await withInput(path, stdin, (input) =>
		withTransactions(
			environment,
			async (sql, transaction) => {
				const { configuration, last_success_at } = await readState(sql);
				if (configuration !== null || last_success_at !== null) await output.confirm(mirrorWarning, options.yes);
				await interruptible((signal) =>
					recorded(context, sql, 'contacts', work, () => {
						const records = read(input.read(signal), contactColumns);
						const contacts = checked(records, { convert: toContact, counts, input, output, signal });
						return saveContacts(transaction, contacts, counts);
					}),
				);
				// Without a CRM no synchroniser does it.
				// The next import does it when this connection is lost.
				await pruneTombstones(sql).catch(() => undefined);
			},
			// A sync run may hold the table for minutes.
			{ ...longWorkSettings, lock_timeout: 0 },
		),
	);
	const { refused } = counts;
	if (refused > 0) throw new CommandError(`Refused records: ${refused}. Correct them and import the file again.`);
}

/** The number of contacts that one statement saves. */
const maxPart = 500;

/** Saves contacts in parts. Of two with the same `bitrix_id` the later one wins for the fields that it has. */
export async function saveContacts(
	transaction: Transaction,
	contacts: AsyncIterable<PartialContactRow>,
	/** `created` and `changed` are written contacts: one that is already stored with the same values is in neither. */
	counts: Record<'records' | 'accepted' | 'created' | 'changed', number>,
): Promise<void> {
	for await (const part of inParts(contacts, maxPart)) {
		const latest = new Map<number, PartialContactRow>();
		for (const contact of part) latest.set(contact.bitrix_id, { ...latest.get(contact.bitrix_id), ...contact });
		const { created, changed } = await transaction(async (sql) => {
			// An absent column keeps what is stored, also if somebody else writes it at this moment.
			await sql`lock table company_contacts in share row exclusive mode`;
			return saveCompanyContacts(sql, [...latest.values()]);
		});
		counts.records += part.length;
		counts.accepted += part.length;
		counts.created += created;
		counts.changed += changed;
	}
}

/**
 * Converts the fields of a record to a contact, by the rules of the list's response: the same field names, digits or numbers for
 * IDs; `trouble_contact` is true, false or nothing, in English or Russian. Trims white space around values. The contact has only the fields of the
 * record: an absent one keeps the stored value.
 *
 * @throws RecordError for the first field that is wrong
 */
export function toContact(fields: Record<string, unknown>): PartialContactRow {
	const { id, bitrix_id, ...given } = fields;
	void id;
	if (Object.keys(given).some((name) => !Object.hasOwn(parsers, name)))
		throw new RecordError('a field that is not known');
	const bitrixId = toId('bitrix_id', bitrix_id);
	if (bitrixId === null) throw new RecordError('bitrix_id: missing');
	const contact: PartialContactRow = { bitrix_id: bitrixId };
	for (const name of contactColumnNames) {
		if (given[name] !== undefined) Object.assign(contact, { [name]: parsers[name](name, given[name]) });
	}
	return contact;
}

/** The parser of each column. */
const parsers: { [Name in ContactColumn]: (field: string, value: unknown) => ContactRow[Name] } = {
	phone: toPhone,
	company_ids: toCompanyIds,
	name: (field, value) => toText(field, value, maxCharacters.name, cleanName),
	assigned_by_id: toId,
	trouble_contact: toFlag,
	perplexity_reason: (field, value) => toText(field, value, maxCharacters.perplexity_reason),
};

/** @param clean returns the text as it is stored; null if nothing is left */
function toText(
	field: string,
	value: unknown,
	max?: number,
	clean = (text: string): string | null => text,
): string | null {
	if (value === null || value === undefined) return null;
	if (typeof value !== 'string') throw new RecordError(`${field}: not a text`);
	// U+FFFD stands for bytes that are not UTF-8.
	if (/[\0\uFFFD]/.test(value) || !value.isWellFormed())
		throw new RecordError(`${field}: a character that can't be stored, or is not UTF-8`);
	const text = clean(value.trim()) ?? '';
	if (max !== undefined && firstCharacters(text, max) !== text)
		throw new RecordError(`${field}: longer than ${max} characters`);
	return text || null;
}

/** A positive integer up to 2^53 − 1, as a number or in decimal digits. */
function toId(field: string, value: unknown): number | null {
	const given = typeof value === 'number' ? String(value) : toText(field, value);
	if (given === null) return null;
	if (!isId(given)) throw new RecordError(`${field}: not a positive integer up to 9007199254740991`);
	return Number(given);
}

function toPhone(field: string, value: unknown): string | null {
	const text = toText(field, value);
	if (text === null) return null;
	const number = toE164(text);
	if (number !== null) return number;
	if (!text.includes('+')) throw new RecordError(`${field}: a number needs a leading plus and its country code`);
	if (/[^+\d\s().-]/u.test(text) || /\)$/.test(text))
		throw new RecordError(`${field}: more than one number, such as an extension or a remark`);
	throw new RecordError(`${field}: not a valid number of its country`);
}

function toCompanyIds(field: string, value: unknown): string[] | null {
	const text = toText(field, value);
	if (text === null) return null;
	const ids = text.split(',').map((part) => part.trim());
	if (!ids.every(isDecimalId)) throw new RecordError(`${field}: not positive integers separated by commas`);
	return [...new Set(ids)];
}

function toFlag(field: string, value: unknown): boolean {
	if (typeof value === 'boolean') return value;
	const text = toText(field, value);
	// As spreadsheets write them.
	if (text !== null && /^(true|истина)$/iu.test(text)) return true;
	if (text === null || /^(false|ложь)$/iu.test(text)) return false;
	throw new RecordError(`${field}: neither "true" nor "false" nor empty`);
}
