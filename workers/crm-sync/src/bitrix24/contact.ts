import { Bitrix24Error } from './errors.js';

/**
 * A contact of the portal, in one format for all methods. An undefined field was not returned, which is not the same as
 * empty. Custom fields have their raw values, and are null if they are not configured.
 */
export interface CrmContact {
	id: number;
	names: unknown[] | undefined;
	phones: CrmPhone[] | undefined;
	companyIds: unknown[] | undefined;
	/** Whether the contact has a primary company, whatever its list of companies contains. */
	hasCompany: boolean;
	assignedById: unknown;
	/** It is not 0 for catalogue vendors. */
	categoryId: number | undefined;
	trouble: unknown;
	reason: unknown;
}

export interface CrmPhone {
	id: number;
	/** MOBILE, WORK, HOME, FAX, PAGER or a type that the portal has defined. */
	kind: string;
	value: string;
}

/** A custom field of contacts. */
export interface CustomField {
	/** Its name in the rows of crm.item.list. */
	itemName: string;
	/** `UF_CRM_…`, which is also its name in the rows of crm.contact.list. */
	code: string;
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

/** @returns undefined if this is not a contact: then the whole response is invalid */
export function fromItem(row: unknown, fields: CustomFields): CrmContact | undefined {
	if (!isRow(row)) return undefined;
	const id = positiveInteger(row.id);
	if (id === undefined) return undefined;
	return {
		id,
		names: namesOf([row.name, row.secondName, row.lastName]),
		phones: phonesOf(row.fm, row.hasPhone),
		companyIds: believed(row.companyIds, positiveInteger(row.companyId) !== undefined),
		hasCompany: positiveInteger(row.companyId) !== undefined,
		assignedById: row.assignedById,
		categoryId: categoryOf(row.categoryId),
		trouble: fields.trouble ? row[fields.trouble.itemName] : null,
		reason: fields.reason ? row[fields.reason.itemName] : null,
	};
}

/** What `fromClassic` reads besides the custom fields. */
export const classicFields = [
	'ID',
	'NAME',
	'SECOND_NAME',
	'LAST_NAME',
	'ASSIGNED_BY_ID',
	'CATEGORY_ID',
	'COMPANY_ID',
	'HAS_PHONE',
	'PHONE',
];

/** A row of crm.contact.list or crm.contact.get. They return only the primary company. The others need another call. */
export function fromClassic(row: unknown, fields: CustomFields): CrmContact | undefined {
	if (!isRow(row)) return undefined;
	const id = positiveInteger(row.ID);
	if (id === undefined) return undefined;
	return {
		id,
		names: namesOf([row.NAME, row.SECOND_NAME, row.LAST_NAME]),
		phones: classicPhones(row, row.HAS_PHONE),
		companyIds: undefined,
		hasCompany: positiveInteger(row.COMPANY_ID) !== undefined,
		assignedById: row.ASSIGNED_BY_ID,
		categoryId: categoryOf(row.CATEGORY_ID),
		trouble: fields.trouble ? row[fields.trouble.code] : null,
		reason: fields.reason ? row[fields.reason.code] : null,
	};
}

/**
 * Reads contacts in strictly ascending order, after the last seen one. Anything else is not a valid page. Leaves out catalogue
 * vendors and contacts of an unknown category, as far as the rows have one: a portal may ignore the filter by category.
 *
 * @throws Bitrix24Error `retry`
 */
export function toPage(
	method: string,
	rows: unknown,
	read: (row: unknown) => CrmContact | undefined,
	after: number,
): { contacts: CrmContact[]; leftOut: number; last: number | undefined } {
	if (!Array.isArray(rows)) throw new Bitrix24Error('retry', 'no_rows', method);
	let last = after;
	const all = rows.map((row) => {
		const contact = read(row);
		if (contact === undefined || contact.id <= last) throw new Bitrix24Error('retry', 'rows_out_of_order', method);
		last = contact.id;
		return contact;
	});
	const contacts = all.filter(({ categoryId }) => categoryId === 0);
	return { contacts, leftOut: all.length - contacts.length, last: all.at(-1)?.id };
}

/**
 * Finds the custom fields among those of crm.item.fields.
 *
 * @throws Bitrix24Error `stop` when the portal lacks a configured field
 */
export function customFieldsOf(all: Row, codes: FieldCodes): CustomFields {
	const find = (code: string | undefined): CustomField | undefined => {
		if (code === undefined) return undefined;
		const entry = Object.entries(all).find(([, field]) => isRow(field) && field.upperName === code);
		if (entry === undefined) throw new Bitrix24Error('stop', `no_field_${code}`.slice(0, 64), 'crm.item.fields');
		const [itemName, field] = entry as [string, Row];
		const items = field.type === 'enumeration' && Array.isArray(field.items) ? field.items.filter(isRow) : undefined;
		return {
			itemName,
			code,
			options: items && new Map(items.map((item) => [String(item.ID), String(item.VALUE).trim()])),
		};
	};
	return { trouble: find(codes.trouble), reason: find(codes.reason) };
}

/** The fields that a row may lack. */
const parts = ['names', 'phones', 'companyIds', 'assignedById', 'trouble', 'reason'] as const;

/** Whether the portal has returned everything that the mirror stores. */
export function isComplete(contact: CrmContact): boolean {
	return parts.every((part) => contact[part] !== undefined);
}

/** The linked companies of crm.contact.company.items.get, primary first, then in the CRM's order. */
export function linksOf(rows: unknown): unknown[] | undefined {
	if (!Array.isArray(rows)) return undefined;
	const rank = (row: Row) => (row.IS_PRIMARY === 'Y' ? 0 : 1);
	return listOf(rows)
		.sort((a, b) => rank(a) - rank(b) || Number(a.SORT) - Number(b.SORT) || Number(a.COMPANY_ID) - Number(b.COMPANY_ID))
		.map((row) => row.COMPANY_ID);
}

export function isRow(value: unknown): value is Row {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The portal writes IDs as numbers or as strings. */
export function positiveInteger(value: unknown): number | undefined {
	if (typeof value === 'string' && !/^\d{1,16}$/.test(value)) return undefined;
	const number = typeof value === 'number' || typeof value === 'string' ? Number(value) : Number.NaN;
	return Number.isSafeInteger(number) && number > 0 ? number : undefined;
}

function listOf(value: unknown): Row[] {
	return Array.isArray(value) ? value.filter(isRow) : [];
}

function namesOf(names: unknown[]): unknown[] | undefined {
	return names.every((name) => name === undefined) ? undefined : names;
}

/** @param hasPhone the portal's own flag. A missing or empty list is trusted only if the flag agrees */
function phonesOf(values: unknown, hasPhone: unknown): CrmPhone[] | undefined {
	if (!Array.isArray(values)) return hasPhone === 'N' ? [] : undefined;
	const phones = listOf(values).flatMap(({ typeId, id, valueType, value }) =>
		typeId === 'PHONE' && typeof value === 'string' ? [{ id: Number(id), kind: String(valueType ?? ''), value }] : [],
	);
	return phones.length === 0 && hasPhone === 'Y' ? undefined : phones;
}

/** PHONE of crm.contact.*: the key is missing if there is no phone. */
export function classicPhones({ PHONE }: Row, hasPhone?: unknown): CrmPhone[] | undefined {
	const phones = listOf(PHONE).map(({ ID, VALUE_TYPE, VALUE }) => ({
		typeId: 'PHONE',
		id: ID,
		valueType: VALUE_TYPE,
		value: VALUE,
	}));
	return phonesOf(phones, hasPhone);
}

/** Linked companies as a row lists them. A contact with companies has a primary one. If so, an empty list is incomplete. */
export function believed(companyIds: unknown, hasCompany: boolean): unknown[] | undefined {
	return Array.isArray(companyIds) && (companyIds.length > 0 || !hasCompany) ? companyIds : undefined;
}

/** The general category is 0, and null or missing on some portals. Undefined if the value is unknown. */
function categoryOf(value: unknown): number | undefined {
	return value === undefined || value === null || value === 0 || value === '0' || value === ''
		? 0
		: positiveInteger(value);
}
