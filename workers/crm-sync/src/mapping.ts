import {
	type ContactColumn,
	type ContactRow,
	firstCharacters,
	maxCharacters,
} from '@contacts/common/contacts/company-contact-columns.sql.js';
import { cleanName } from '@contacts/common/contacts/name.js';
import { readPhone } from '@contacts/common/contacts/phone.js';
import type { CountryCode } from 'libphonenumber-js/max';
import {
	type CrmContact,
	type CrmPhone,
	type CustomField,
	type CustomFields,
	type FieldValue,
	positiveInteger,
} from './bitrix24/contact.js';
import type { Crm, Found } from './bitrix24/crm.js';
import type { Session } from './mirror/session.js';
import { saveUnreadablePhones } from './mirror/unreadable-phones.sql.js';

/** Increase it when a contact is mapped to a different row, or other contacts are mirrored: every contact is then read again. */
export const mappingVersion = 3;

export interface MappingOptions {
	country: CountryCode | undefined;
	/** Options of a list, by ID or label, that mean trouble. */
	troubleOptions: ReadonlySet<string>;
}

interface Mapped {
	contact: ContactRow;
	/** The columns whose values could not be mapped, and became null, or were too long, and were cut. */
	unmapped: ContactColumn[];
	/** Whether a value is an option that is newer than the list of options. */
	unknownOption: boolean;
}

/** What mapping needs. */
export interface MapperOptions {
	crm: Crm;
	mapping: MappingOptions;
	session: Session;
	/** Called for each value that could not be mapped, or was cut. */
	onUnmapped(column: ContactColumn): void;
}

/**
 * Maps contacts, and stores whose phones could not be read. An unknown option of a list causes the options to be read again, at most
 * once a run. If it is still unknown, the column stays null and is counted.
 */
export function createMapper({ crm, mapping, session, onUnmapped }: MapperOptions) {
	let refreshed = false;
	return async (found: Found): Promise<Found<ContactRow>> => {
		const mapAll = () => found.contacts.map((contact) => mapContact(contact, crm.fields(), mapping));
		let mapped = mapAll();
		if (!refreshed && mapped.some(({ unknownOption }) => unknownOption)) {
			refreshed = true;
			await crm.readFields();
			mapped = mapAll();
		}
		for (const { unmapped } of mapped) unmapped.forEach(onUnmapped);
		const contacts = mapped.map(({ contact }) => contact);
		const isUnreadable = ({ unmapped }: Mapped) => unmapped.includes('phone');
		const unreadable = mapped.filter(isUnreadable).map(({ contact }) => contact.bitrix_id);
		const read = contacts.map(({ bitrix_id: id }) => id);
		if (read.length > 0) await session.run((sql) => saveUnreadablePhones(sql, read, unreadable));
		return { ...found, contacts };
	};
}

const columnsWithMaximum = Object.keys(maxCharacters) as (keyof typeof maxCharacters)[];

/** Maps a contact of the CRM to a row of the mirror. */
export function mapContact(contact: CrmContact, fields: CustomFields, options: MappingOptions): Mapped {
	const unmapped = new Set<ContactColumn>();
	const phone = mapPhone(contact.phones, options.country);
	if (phone === null && contact.phones.some(isDialled)) unmapped.add('phone');
	const assigned = positiveInteger(contact.assignedById);
	if (assigned === undefined && !isNothing(contact.assignedById)) unmapped.add('assigned_by_id');
	const trouble = mapTrouble(contact.trouble, fields.trouble, options.troubleOptions);
	if (trouble === undefined) unmapped.add('trouble_contact');
	const reason = mapReason(contact.reason, fields.reason);
	if (reason.unknownOption) unmapped.add('perplexity_reason');
	const companyIds = contact.companyIds.flatMap((id) => positiveInteger(id) ?? []);
	if (companyIds.length !== contact.companyIds.length) unmapped.add('company_ids');
	const row: ContactRow = {
		bitrix_id: contact.id,
		phone,
		company_ids: companyIds.length ? [...new Set(companyIds)] : null,
		name: contact.names.flatMap((part) => cleanName(storable(part) ?? '') ?? []).join(' '),
		assigned_by_id: assigned ?? null,
		trouble_contact: trouble ?? false,
		perplexity_reason: reason.text,
	};
	for (const column of columnsWithMaximum) {
		const text = row[column] ?? '';
		const short = firstCharacters(text, maxCharacters[column]);
		if (short !== text) unmapped.add(column);
		row[column] = short.trimEnd() || null;
	}
	return {
		contact: row,
		unmapped: [...unmapped],
		unknownOption: reason.unknownOption || (trouble === undefined && fields.trouble?.options !== undefined),
	};
}

/** Returns the options that should mean trouble and that the field lacks, so that no contact can have them. */
export function missingTroubleOptions({ trouble }: CustomFields, { troubleOptions }: MappingOptions): string[] {
	const known = new Set(trouble?.options === undefined ? [] : [...trouble.options].flat());
	// A comma at the end leaves an empty one.
	return [...troubleOptions].filter((option) => option !== '' && !known.has(option));
}

const rankOfKind: Record<string, number> = { MOBILE: 0, WORK: 1, HOME: 2 };

/** Returns the first valid number: mobile, work, home, then any other; never a fax or a pager. */
function mapPhone(phones: CrmPhone[], country: CountryCode | undefined): string | null {
	const rank = ({ kind }: CrmPhone) => rankOfKind[kind.toUpperCase()] ?? 3;
	const ordered = phones.filter(isDialled).sort((a, b) => rank(a) - rank(b) || a.id - b.id);
	for (const { value } of ordered) {
		const number = readPhone(value, country);
		if (number !== null) return number;
	}
	return null;
}

function isDialled({ kind, value }: CrmPhone): boolean {
	return !['FAX', 'PAGER'].includes(kind.toUpperCase()) && value.trim() !== '';
}

/** @returns undefined if the meaning of the value is unknown */
function mapTrouble(
	value: FieldValue | FieldValue[],
	field: CustomField | undefined,
	troubleOptions: ReadonlySet<string>,
): boolean | undefined {
	if (isNothing(value)) return false;
	if (Array.isArray(value)) {
		const each = value.map((one) => mapTrouble(one, field, troubleOptions));
		return each.includes(true) || (each.includes(undefined) ? undefined : false);
	}
	const text = String(value).trim();
	if (field?.options !== undefined) {
		const label = field.options.get(text);
		if (troubleOptions.has(text) || (label !== undefined && troubleOptions.has(label))) return true;
		return label === undefined ? undefined : false;
	}
	if (/^(y|1|true)$/i.test(text)) return true;
	return /^(n|0|false)$/i.test(text) ? false : undefined;
}

function mapReason(
	value: FieldValue | FieldValue[],
	field: CustomField | undefined,
): { text: string; unknownOption: boolean } {
	const isList = field?.options !== undefined;
	// In a text, "0" is a text. In a list, it is not an option.
	const values = (Array.isArray(value) ? value : [value]).filter((one) => (isList ? !isNothing(one) : one !== false));
	const texts = values.flatMap((one) =>
		isList || storable(one) ? [isList ? storable(field?.options?.get(String(one))) : storable(one)] : [],
	);
	const known = texts.filter((text) => text !== undefined);
	return { text: known.join('; '), unknownOption: isList && known.length < texts.length };
}

/** The ways in which the CRM writes an empty value. */
function isNothing(value: FieldValue | FieldValue[]): boolean {
	return (
		value === null ||
		value === '' ||
		value === false ||
		value === 0 ||
		value === '0' ||
		(Array.isArray(value) && value.length === 0)
	);
}

/** Returns text that PostgreSQL can store, trimmed; undefined if nothing is left. */
function storable(value: FieldValue | undefined): string | undefined {
	if (typeof value !== 'string' && typeof value !== 'number') return undefined;
	return String(value).replaceAll('\0', '').toWellFormed().trim() || undefined;
}
