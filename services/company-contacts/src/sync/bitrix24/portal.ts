import { type CrmContact, type CustomFields, fromClassic, fromItem, isRow, isWhole } from './contact.js';
import { Bitrix24Error } from './errors.js';
import { type FieldCodes, readFields } from './fields.js';
import type { RestClient } from './rest-client.js';
import { createSingles, entityTypeId, type Lookup } from './singles.js';

export type { FieldCodes } from './fields.js';

/** What a page of contacts is asked for: those with a higher ID, changed at or after a time, ordinary ones only. */
export interface PageQuery {
	after: number;
	/** Milliseconds since the epoch. */
	changedSince?: number;
}

export interface Page {
	contacts: CrmContact[];
	/** The ID of the last contact that was listed; undefined: there are no more. Not all that are listed are contacts of ours. */
	last: number | undefined;
	/** The portal's clock when it answered; milliseconds since the epoch. */
	at: number | undefined;
}

/** What the synchroniser asks of the portal. Everything throws Bitrix24Error. */
export interface Portal {
	/** How many ordinary contacts there are, and the portal's clock. */
	count(): Promise<{ total: number | undefined; at: number }>;
	/** Up to 50 contacts in the order of their IDs; only a page without a last one is the end. */
	page(query: PageQuery): Promise<Page>;
	/**
	 * Asks for single contacts, 50 a request, and yields what is known after each request: what came beside an error that ends
	 * the work is yielded before it is thrown.
	 */
	lookUp(ids: number[]): AsyncGenerator<Map<number, Lookup>>;
	/** Reads the custom fields' options again. */
	refreshFields(): Promise<void>;
	fields(): CustomFields;
}

/** So many pages are compared at most until a list has proven itself: a portal may have no contact with two companies. */
const mostComparisons = 20;

/** So often a page is read before its list counts as cut. */
const mostReadings = 3;

/** @param codes which custom fields hold what; one that the portal does not have stops everything: nothing is overwritten with nulls */
export async function openPortal(client: RestClient, codes: FieldCodes): Promise<Portal> {
	let fields = await readFields(client, codes);
	const singles = createSingles(client, () => fields);
	// crm.item.list tells phones and links on some portals and not on others; with the deprecated crm.contact.list they are
	// asked for apart. The first pages show which it is.
	let classic = false;
	let comparisons = mostComparisons;
	const proven = { companies: false, phones: false };

	async function itemPage(query: PageQuery): Promise<Page> {
		const params = {
			entityTypeId,
			// Phones come only with everything.
			select: ['*'],
			filter: {
				categoryId: 0,
				'>id': query.after,
				...(query.changedSince === undefined ? {} : { '>=updatedTime': isoTime(query.changedSince) }),
			},
			order: { id: 'ASC' },
			// Without a count: with one, a large portal needs seconds for each page.
			start: -1,
		};
		return client.call('crm.item.list', params, ({ result, at }) => {
			const rows = isRow(result) ? result.items : undefined;
			return { ...toPage('crm.item.list', rows, (row) => fromItem(row, fields), query.after), at };
		});
	}

	/**
	 * Lists in a row may be cut without a sign of it. Until a list has shown a contact with two companies and one with a phone,
	 * its pages are compared with what crm.item.get tells of the same contacts: what is listed is believed only where that
	 * has nothing more.
	 */
	async function agreesWithItems(listed: CrmContact[]): Promise<boolean> {
		if (comparisons === 0 || listed.length === 0) return true;
		comparisons--;
		const items = await singles.items(listed.map(({ id }) => id));
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
		return { ...page, contacts: await singles.complete(page.contacts) };
	}

	return {
		fields: () => fields,
		async refreshFields() {
			fields = await readFields(client, codes);
		},
		async count() {
			const params = { entityTypeId, select: ['id'], filter: { categoryId: 0 }, order: { id: 'ASC' }, start: 0 };
			const { total, at } = await client.call('crm.item.list', params, (answer) => answer);
			if (at === undefined) throw new Bitrix24Error('stop', 'no_portal_clock', 'crm.item.list');
			return { total, at };
		},
		async page(query) {
			if (classic) return classicPage(query);
			// A contact that is changed between the list and its item differs too: then a page that is read again agrees.
			for (let tries = 0; tries < mostReadings; tries++) {
				const page = await itemPage(query);
				if (!page.contacts.every(isWhole)) break;
				if (await agreesWithItems(page.contacts)) return page;
			}
			classic = true;
			return classicPage(query);
		},
		lookUp: singles.lookUp,
	};
}

/** Rows in strictly rising order behind the one that was last seen, each a contact: anything else is no page of contacts. */
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

/** With its offset: without one the portal takes it for its own local time. */
function isoTime(milliseconds: number): string {
	return `${new Date(milliseconds).toISOString().slice(0, 19)}+00:00`;
}
