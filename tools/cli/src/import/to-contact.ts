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
import { isId } from '../arguments.js';
import { RecordError } from './save-records.js';

const maxBigint = 2n ** 63n - 1n;

/**
 * Converts the fields of a record to a contact, by the rules of the list's response: the same field names, digits or numbers for
 * IDs, `true` or nothing for `trouble_contact`. Trims white space around values. The contact has only the fields of the
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
	for (const id of ids) {
		if (!/^[1-9][0-9]{0,18}$/.test(id) || BigInt(id) > maxBigint)
			throw new RecordError(`${field}: not positive integers separated by commas`);
	}
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
