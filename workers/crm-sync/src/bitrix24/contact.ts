import { Bitrix24Error } from './errors.js';

/** A value of a field. An object or a list of lists is none. */
export type FieldValue = string | number | boolean | null;

/** What the mirror stores of a contact, as the CRM returned it. */
export interface CrmContact {
	id: number;
	/** First, second and last name. */
	names: FieldValue[];
	phones: CrmPhone[];
	/** The linked companies, primary first, then in the CRM's order. */
	companyIds: FieldValue[];
	assignedById: FieldValue;
	/** Null if the field is not configured. */
	trouble: FieldValue | FieldValue[];
	/** Null if the field is not configured. */
	reason: FieldValue | FieldValue[];
}

export interface CrmPhone {
	id: number;
	/** MOBILE, WORK, HOME, FAX, PAGER or a type that the CRM has defined. */
	kind: string;
	value: string;
}

/** A contact as a row of the CRM. */
export interface Item {
	id: number;
	/** Undefined if the value is unknown. */
	categoryId: number | undefined;
	updatedTime: unknown;
	/** The fields that the row has in a form that can be read. */
	fields: Partial<CrmContact>;
	/** The names of the fields that it does not have in such a form. */
	absent: string[];
	/** Whether a list is empty although another field of the row says that it is not. */
	contradicts: boolean;
}

/** A custom field of contacts. */
export interface CustomField {
	/** Its name in rows. */
	itemName: string;
	/** For a list: the label of each option by its ID. */
	options: Map<string, string> | undefined;
}

/** The custom field for each purpose. Undefined if it is not configured. */
export interface CustomFields {
	trouble: CustomField | undefined;
	reason: CustomField | undefined;
}

/** The codes of the custom fields, `UF_CRM_…`; undefined: none is configured. */
export interface FieldCodes {
	trouble: string | undefined;
	reason: string | undefined;
}

type Row = Record<string, unknown>;

/** A contact without one of them is unread. The compiler requires each. */
const allFields: Record<keyof CrmContact, true> = {
	id: true,
	names: true,
	phones: true,
	companyIds: true,
	assignedById: true,
	trouble: true,
	reason: true,
};

/** @returns undefined if this is not an item: then the whole response is invalid */
export function readItem(row: unknown, custom: CustomFields): Item | undefined {
	if (!isRow(row)) return undefined;
	const id = positiveInteger(row.id);
	if (id === undefined) return undefined;
	const fields: Partial<CrmContact> = { id };

	const names = [row.name, row.secondName, row.lastName];
	const isNamed =
		names.some((name) => name !== undefined) && names.every((name) => name === undefined || isValue(name));
	if (isNamed) fields.names = names.map((name) => (isValue(name) ? name : null));
	if (isValue(row.assignedById)) fields.assignedById = row.assignedById;
	for (const purpose of ['trouble', 'reason'] as const) {
		const field = custom[purpose];
		const value = field === undefined ? null : row[field.itemName];
		if (isValue(value) || isListOfValues(value)) fields[purpose] = value;
	}
	const phones = phonesOf(row);
	if (phones !== undefined) fields.phones = phones;
	const companyIds = companyIdsOf(row);
	if (companyIds !== undefined) fields.companyIds = companyIds;
	const contradicts =
		(phones?.length === 0 && row.hasPhone === 'Y') ||
		(companyIds?.length === 0 && positiveInteger(row.companyId) !== undefined);

	const absent = Object.keys(allFields).filter((name) => !(name in fields));
	return { id, categoryId: categoryOf(row.categoryId), updatedTime: row.updatedTime, fields, absent, contradicts };
}

/** @returns undefined unless the CRM has returned everything that the mirror stores */
export function contactOf({ fields, absent }: Item): CrmContact | undefined {
	return absent.length === 0 ? (fields as CrmContact) : undefined;
}

/** Returns whether a row has less than another row of the same contact. */
export function hasLess({ fields }: Item, other: Item): boolean {
	const companies = new Set(fields.companyIds?.map(String));
	return (
		Object.keys(other.fields).some((name) => !(name in fields)) ||
		(fields.phones?.length ?? 0) < (other.fields.phones?.length ?? 0) ||
		other.fields.companyIds?.some((id) => !companies.has(String(id))) === true
	);
}

/** The types of custom fields that give one text, number, flag or option, or a list of them. */
const fieldTypes = new Set(['string', 'url', 'integer', 'double', 'boolean', 'enumeration']);

/**
 * Finds the custom fields among those of crm.item.fields.
 *
 * @throws Bitrix24Error `stop` when the CRM lacks a configured field, or it is of another type; `retry` when it returns a list without its options: their IDs
 *   would count as text
 */
export function customFieldsOf(all: Row, codes: FieldCodes): CustomFields {
	const find = (code: string | undefined): CustomField | undefined => {
		if (code === undefined) return undefined;
		const entry = Object.entries(all).find(([, field]) => isRow(field) && field.upperName === code);
		if (entry === undefined) throw new Bitrix24Error('stop', `no_field_${code}`.slice(0, 64), 'crm.item.fields');
		const [itemName, field] = entry as [string, Row];
		const type = typeof field.type === 'string' && /^\w{1,32}$/.test(field.type) ? field.type : 'unknown';
		if (!fieldTypes.has(type))
			throw new Bitrix24Error('stop', `type_${type}_of_${code}`.slice(0, 64), 'crm.item.fields');
		if (type !== 'enumeration') return { itemName, options: undefined };
		if (!Array.isArray(field.items)) throw new Bitrix24Error('retry', 'no_options', 'crm.item.fields');
		const options = field.items
			.filter(isRow)
			.flatMap(({ ID: id, VALUE: label }): [string, string][] =>
				isValue(id) && isValue(label) ? [[String(id), String(label).trim()]] : [],
			);
		return { itemName, options: new Map(options) };
	};
	return { trouble: find(codes.trouble), reason: find(codes.reason) };
}

export function isRow(value: unknown): value is Row {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The CRM writes IDs as numbers or as strings. */
export function positiveInteger(value: unknown): number | undefined {
	if (typeof value === 'string' && !/^\d{1,16}$/.test(value)) return undefined;
	const number = typeof value === 'number' || typeof value === 'string' ? Number(value) : Number.NaN;
	return Number.isSafeInteger(number) && number > 0 ? number : undefined;
}

function isValue(value: unknown): value is FieldValue {
	return value === null || ['string', 'number', 'boolean'].includes(typeof value);
}

function isListOfValues(value: unknown): value is FieldValue[] {
	return Array.isArray(value) && value.every(isValue);
}

/** @returns undefined if the phones can't be read */
function phonesOf({ fm, hasPhone }: Row): CrmPhone[] | undefined {
	if (fm === null || (fm === undefined && hasPhone === 'N')) return [];
	if (!Array.isArray(fm)) return undefined;
	const phones: CrmPhone[] = [];
	for (const entry of fm) {
		if (!isRow(entry)) return undefined;
		const { typeId, id, valueType = '', value } = entry;
		if (typeId !== 'PHONE') continue;
		if (!isValue(valueType) || !isValue(value)) return undefined;
		const phoneId = positiveInteger(id) ?? Number.MAX_SAFE_INTEGER;
		phones.push({ id: phoneId, kind: String(valueType ?? ''), value: String(value ?? '') });
	}
	return phones;
}

/** @returns undefined if the companies can't be read */
function companyIdsOf({ companyId = null, companyIds: given }: Row): FieldValue[] | undefined {
	const companyIds = given === null ? [] : given;
	if (!isListOfValues(companyIds) || !isValue(companyId)) return undefined;
	const primary = positiveInteger(companyId);
	if (primary === undefined || companyIds.length === 0) return companyIds;
	return [primary, ...companyIds.filter((id) => positiveInteger(id) !== primary)];
}

/** The general category is 0, and may be null or missing. Undefined if the value is unknown. */
function categoryOf(value: unknown): number | undefined {
	return value === undefined || value === null || value === 0 || value === '0' || value === ''
		? 0
		: positiveInteger(value);
}
