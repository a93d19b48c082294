import type { StandInContact } from './contact.js';

export type FieldValue = string | number | boolean | Date | null | FieldValue[];

/** A standard field of a contact, in the names of both families of methods. */
export interface ContactField {
	/** Its name in crm.item.*. */
	camel: string;
	/** Its name in crm.contact.*. */
	classic: string;
	type: string;
	title: string;
	readOnly?: boolean;
	multiple?: boolean;
	/** Absent from the descriptions of fields, though rows have it. [DOC] "Response only" */
	undescribed?: boolean;
	/** Absent from the rows of crm.contact.*. */
	notInClassicRows?: boolean;
	value(contact: StandInContact): FieldValue;
}

const always = (value: FieldValue) => () => value;
const firstOf = (list: { valueType: string; value: string }[] | undefined, type?: string): string =>
	list?.find((field) => type === undefined || field.valueType === type)?.value ?? '';

/** A date in whole seconds, as the database holds it. [DOC] */
function wholeSeconds(date: Date): Date {
	return new Date(Math.floor(date.getTime() / 1000) * 1000);
}

type Row = [camel: string, classic: string, type: string, title: string, value: ContactField['value']];

// The fields that a contact has, [DOC]; those that the stand-in has no value for are null, as on a portal without values.
const writable: Row[] = [
	['name', 'NAME', 'string', 'First name', (contact) => contact.name ?? null],
	['secondName', 'SECOND_NAME', 'string', 'Middle name', (contact) => contact.secondName ?? null],
	['lastName', 'LAST_NAME', 'string', 'Last name', (contact) => contact.lastName ?? null],
	['assignedById', 'ASSIGNED_BY_ID', 'user', 'Responsible', (contact) => contact.assignedById ?? 0],
	['honorific', 'HONORIFIC', 'crm_status', 'Salutation', always(null)],
	['photo', 'PHOTO', 'file', 'Photo', always(null)],
	['birthdate', 'BIRTHDATE', 'date', 'Date of birth', always('')],
	['typeId', 'TYPE_ID', 'crm_status', 'Contact type', always('CLIENT')],
	['sourceId', 'SOURCE_ID', 'crm_status', 'Source', always(null)],
	['sourceDescription', 'SOURCE_DESCRIPTION', 'text', 'Source information', always(null)],
	['post', 'POST', 'string', 'Position', always(null)],
	['comments', 'COMMENTS', 'text', 'Comment', always(null)],
	['opened', 'OPENED', 'boolean', 'Available to everyone', always(true)],
	['export', 'EXPORT', 'boolean', 'Included in export', always(true)],
	['companyId', 'COMPANY_ID', 'crm_company', 'Company', (contact) => contact.companyIds?.[0] ?? null],
	['leadId', 'LEAD_ID', 'crm_lead', 'Lead', always(null)],
	['originatorId', 'ORIGINATOR_ID', 'string', 'External source', always(null)],
	['originId', 'ORIGIN_ID', 'string', 'Identifier in the external source', always(null)],
	['originVersion', 'ORIGIN_VERSION', 'string', 'Version of the original', always(null)],
	['utmSource', 'UTM_SOURCE', 'string', 'Advertising system', always(null)],
	['lastActivityBy', 'LAST_ACTIVITY_BY', 'user', 'Last activity by', (contact) => contact.assignedById ?? 0],
	[
		'lastActivityTime',
		'LAST_ACTIVITY_TIME',
		'datetime',
		'Last activity',
		(contact) => wholeSeconds(contact.updatedTime),
	],
];

const readOnly: Row[] = [
	['id', 'ID', 'integer', 'ID', (contact) => contact.id],
	['createdTime', 'DATE_CREATE', 'datetime', 'Created on', (contact) => wholeSeconds(contact.createdTime)],
	['updatedTime', 'DATE_MODIFY', 'datetime', 'Modified on', (contact) => wholeSeconds(contact.updatedTime)],
	['createdBy', 'CREATED_BY_ID', 'user', 'Created by', always(1)],
	['updatedBy', 'MODIFY_BY_ID', 'user', 'Modified by', always(1)],
	['hasPhone', 'HAS_PHONE', 'boolean', 'Has a phone', (contact) => (contact.phones ?? []).length > 0],
	['hasEmail', 'HAS_EMAIL', 'boolean', 'Has an e-mail', (contact) => (contact.emails ?? []).length > 0],
	['hasImol', 'HAS_IMOL', 'boolean', 'Has an open channel', always(false)],
];

/** [DOC] Flat copies of the first numbers and addresses of `fm`, and a left-over. They don't replace `fm`. */
const responseOnly: Row[] = [
	['phone', '', 'string', '', (contact) => firstOf(contact.phones)],
	['phoneMobile', '', 'string', '', (contact) => firstOf(contact.phones, 'MOBILE')],
	['phoneWork', '', 'string', '', (contact) => firstOf(contact.phones, 'WORK')],
	['phoneMailing', '', 'string', '', (contact) => firstOf(contact.phones, 'MAILING')],
	['email', '', 'string', '', (contact) => firstOf(contact.emails)],
	['emailHome', '', 'string', '', (contact) => firstOf(contact.emails, 'HOME')],
	['emailWork', '', 'string', '', (contact) => firstOf(contact.emails, 'WORK')],
	['shortName', '', 'string', '', always(null)],
];

const field = ([camel, classic, type, title, value]: Row): ContactField => ({ camel, classic, type, title, value });

/** Every standard field of a contact but the multifields. */
export const contactFields: readonly ContactField[] = [
	...readOnly.map((row) => ({ ...field(row), readOnly: true })),
	...writable.map(field),
	{
		...field(['categoryId', 'CATEGORY_ID', 'crm_category', 'Category', (contact) => contact.categoryId ?? 0]),
		// [DOC] Neither the description nor the rows of crm.contact.* have it; its filter knows it, [INF].
		notInClassicRows: true,
	},
	{
		// [FIELD] COMPANY_IDS is described by crm.contact.fields, but no row of crm.contact.* ever has it.
		...field(['companyIds', 'COMPANY_IDS', 'crm_company', 'Companies', (contact) => contact.companyIds ?? []]),
		multiple: true,
		notInClassicRows: true,
	},
	...responseOnly.map((row) => ({ ...field(row), undescribed: true, notInClassicRows: true })),
];
