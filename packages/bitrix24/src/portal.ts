import {
	type CrmContact,
	type CustomField,
	type CustomFields,
	fromClassic,
	fromItem,
	isComplete,
	isRow,
} from './contact.js';
import { Bitrix24Error } from './errors.js';
import { createLookUps, entityTypeId, type LookUps } from './look-ups.js';
import type { RestClient } from './rest-client.js';

/** The codes of the custom fields, `UF_CRM_…`; undefined: none is configured. */
export interface FieldCodes {
	trouble: string | undefined;
	reason: string | undefined;
}

export type { LookUps } from './look-ups.js';

/** A page of ordinary contacts: those with a higher ID, changed at or after a time. */
interface PageQuery {
	after: number;
	/** Milliseconds since the epoch. */
	changedSince?: number;
}

export interface Page {
	contacts: CrmContact[];
	/** The ID of the last contact that was listed; undefined: there are no more. `contacts` may lack some that were listed. */
	last: number | undefined;
	/** The portal's clock; milliseconds since the epoch. */
	at: number | undefined;
}

/** The contacts of a portal. Every method throws Bitrix24Error. */
export interface Portal {
	/** How many ordinary contacts there are, and the portal's clock. */
	count(): Promise<{ total: number | undefined; at: number }>;
	/** Up to 50 contacts in the order of their IDs; only a page without a last contact is the end. */
	page(query: PageQuery): Promise<Page>;
	/**
	 * Reads contacts by their IDs, 50 a request, and yields the result of each request: results next to an error of the
	 * portal are yielded before the error is thrown.
	 */
	lookUp(ids: number[]): AsyncGenerator<LookUps>;
	/** Reads the custom fields' options again. */
	refreshFields(): Promise<void>;
	fields(): CustomFields;
}

/**
 * Maximum number of pages to compare. A portal may have no contact with two companies, so a list can't always be proven
 * complete.
 */
const maxComparisons = 20;

/** How often a page is read before its list counts as incomplete. */
const maxReads = 3;

/**
 * @param codes which custom field has which meaning. A field that the portal lacks is an error, so that nothing is
 *   overwritten with nulls
 */
export async function openPortal(client: RestClient, codes: FieldCodes): Promise<Portal> {
	let fields = await readFields(client, codes);
	const lookUps = createLookUps(client, () => fields);
	// crm.item.list returns phones and links on some portals and not on others; the deprecated crm.contact.list needs other calls
	// for them. The first pages show which of the two this portal needs.
	let classic = false;
	let comparisons = maxComparisons;
	const proven = { companies: false, phones: false };

	async function itemPage(query: PageQuery): Promise<Page> {
		const params = {
			entityTypeId,
			// Phones are returned only with all fields.
			select: ['*'],
			filter: {
				categoryId: 0,
				'>id': query.after,
				...(query.changedSince === undefined ? {} : { '>=updatedTime': isoTime(query.changedSince) }),
			},
			order: { id: 'ASC' },
			// No total count: it takes seconds for each page on a large portal.
			start: -1,
		};
		return client.call('crm.item.list', params, ({ result, at }) => {
			const rows = isRow(result) ? result.items : undefined;
			return { ...toPage('crm.item.list', rows, (row) => fromItem(row, fields), query.after), at };
		});
	}

	/**
	 * The lists in a row may be silently incomplete. Until a list has returned a contact with two companies and one with a
	 * phone, its pages are compared with the same contacts from crm.item.get. A list is trusted only if crm.item.get returns
	 * nothing more.
	 */
	async function agreesWithItems(listed: CrmContact[]): Promise<boolean> {
		if (comparisons === 0 || listed.length === 0) return true;
		comparisons--;
		const items = await lookUps.items(listed.map(({ id }) => id));
		for (const contact of listed) {
			const { companyIds: companies = [], phones = [] } = contact;
			const item = items.get(contact.id);
			const listedCompanies = new Set(companies.map(String));
			if (item?.companyIds?.some((id) => !listedCompanies.has(String(id)))) return false;
			if ((item?.phones?.length ?? 0) > phones.length) return false;
			proven.companies ||= companies.length > 1;
			proven.phones ||= phones.length > 0;
		}
		if (proven.companies && proven.phones) comparisons = 0;
		return true;
	}

	async function classicPage(query: PageQuery): Promise<Page> {
		const params = {
			select: [
				'ID',
				'NAME',
				'SECOND_NAME',
				'LAST_NAME',
				'ASSIGNED_BY_ID',
				'CATEGORY_ID',
				'COMPANY_ID',
				'HAS_PHONE',
				'PHONE',
				...Object.values(codes).filter(Boolean),
			],
			filter: {
				CATEGORY_ID: 0,
				'>ID': query.after,
				...(query.changedSince === undefined ? {} : { '>=DATE_MODIFY': isoTime(query.changedSince) }),
			},
			order: { ID: 'ASC' },
			start: -1,
		};
		const page = await client.call('crm.contact.list', params, ({ result, at }) => ({
			...toPage('crm.contact.list', result, (row) => fromClassic(row, fields), query.after),
			at,
		}));
		return { ...page, contacts: await lookUps.complete(page.contacts) };
	}

	return {
		fields: () => fields,
		async refreshFields() {
			fields = await readFields(client, codes);
		},
		async count() {
			const params = { entityTypeId, select: ['id'], filter: { categoryId: 0 }, order: { id: 'ASC' }, start: 0 };
			const { total, at } = await client.call('crm.item.list', params, (response) => response);
			if (at === undefined) throw new Bitrix24Error('stop', 'no_portal_clock', 'crm.item.list');
			return { total, at };
		},
		async page(query) {
			if (classic) return classicPage(query);
			// A contact that is changed between the two calls differs as well: then the page agrees when it is read again.
			for (let tries = 0; tries < maxReads; tries++) {
				const page = await itemPage(query);
				if (!page.contacts.every(isComplete)) break;
				if (await agreesWithItems(page.contacts)) return page;
			}
			classic = true;
			return classicPage(query);
		},
		lookUp: lookUps.lookUp,
	};
}

/** Contacts in strictly ascending order, after the last seen one. Anything else is not a valid page. */
function toPage(
	method: string,
	rows: unknown,
	read: (row: unknown) => CrmContact | undefined,
	after: number,
): { contacts: CrmContact[]; last: number | undefined } {
	if (!Array.isArray(rows)) throw new Bitrix24Error('retry', 'no_rows', method);
	let last = after;
	const contacts = rows.map((row) => {
		const contact = read(row);
		if (contact === undefined || contact.id <= last) throw new Bitrix24Error('retry', 'rows_out_of_order', method);
		last = contact.id;
		return contact;
	});
	return { contacts, last: contacts.at(-1)?.id };
}

/** Adds an offset. Without one, the portal reads the time as its local time. */
function isoTime(milliseconds: number): string {
	return `${new Date(milliseconds).toISOString().slice(0, 19)}+00:00`;
}

/** @throws Bitrix24Error `stop` when the portal lacks a configured field */
async function readFields(client: RestClient, codes: FieldCodes): Promise<CustomFields> {
	if (codes.trouble === undefined && codes.reason === undefined) return { trouble: undefined, reason: undefined };
	const all = await client.call('crm.item.fields', { entityTypeId }, ({ result }) => {
		if (!isRow(result) || !isRow(result.fields)) throw new Bitrix24Error('retry', 'no_fields', 'crm.item.fields');
		return result.fields;
	});
	const find = (code: string | undefined): CustomField | undefined => {
		if (code === undefined) return undefined;
		const entry = Object.entries(all).find(([, field]) => isRow(field) && field.upperName === code);
		if (entry === undefined) throw new Bitrix24Error('stop', `no_field_${code}`.slice(0, 64), 'crm.item.fields');
		const [itemName, field] = entry as [string, Record<string, unknown>];
		const items = field.type === 'enumeration' && Array.isArray(field.items) ? field.items.filter(isRow) : undefined;
		return { itemName, code, options: items && new Map(items.map((item) => [String(item.ID), String(item.VALUE)])) };
	};
	return { trouble: find(codes.trouble), reason: find(codes.reason) };
}
