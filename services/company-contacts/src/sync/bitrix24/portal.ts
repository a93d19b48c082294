import {
	type CrmContact,
	type CustomField,
	type CustomFields,
	fromClassic,
	fromItem,
	isRow,
	linksOf,
} from './contact.js';
import { Bitrix24Error } from './errors.js';
import type { Answer, RestClient } from './rest-client.js';

/** The type ID of contacts among the portal's items. */
const entityTypeId = 3;

/** What a page of contacts is asked for: those with a higher ID, changed at or after a time, ordinary ones only. */
export interface PageQuery {
	after: number;
	/** Milliseconds since the epoch. */
	changedSince?: number;
}

export interface Page {
	contacts: CrmContact[];
	/** The portal's clock when it answered; milliseconds since the epoch. */
	at: number | undefined;
}

/** What became of one contact that was asked for by its ID. */
export type Lookup =
	| { state: 'found'; contact: CrmContact }
	| { state: 'deleted' }
	| { state: 'unknown'; code: string };

/** What the synchroniser asks of the portal. Everything throws Bitrix24Error. */
export interface Portal {
	/** How many ordinary contacts there are, and the portal's clock. */
	count(): Promise<{ total: number | undefined; at: number }>;
	/** Up to 50 contacts in the order of their IDs; only an empty page is the end. */
	page(query: PageQuery): Promise<Page>;
	/** Asks for single contacts, 50 a request. */
	lookUp(ids: number[]): Promise<Map<number, Lookup>>;
	/** Reads the custom fields' options again. */
	refreshFields(): Promise<void>;
	fields(): CustomFields;
}

export interface FieldCodes {
	/** `UF_CRM_…` */
	trouble: string | undefined;
	reason: string | undefined;
}

const pageSize = 50;

/** @param codes which custom fields hold what; one that the portal does not have stops everything: nothing is overwritten with nulls */
export async function openPortal(client: RestClient, codes: FieldCodes): Promise<Portal> {
	let fields = await readFields(client, codes);
	// crm.item.list tells phones and links on some portals and not on others; the deprecated crm.contact.list always tells
	// the phones, and the links are asked for apart. The first page shows which it is.
	let classic = false;

	async function itemPage(query: PageQuery): Promise<Page & { complete: boolean }> {
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
			const contacts = checkRows('crm.item.list', rows, (row) => fromItem(row, fields), query.after);
			const told = rows as Record<string, unknown>[];
			const complete = told.every((row) => Array.isArray(row.companyIds)) && told.some((row) => 'fm' in row);
			return { contacts, at, complete: contacts.length === 0 || complete };
		});
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
		const { contacts, at } = await client.call('crm.contact.list', params, (answer) => ({
			contacts: checkRows('crm.contact.list', answer.result, (row) => fromClassic(row, undefined, fields), query.after),
			at: answer.at,
		}));
		const links = await client.batch(
			contacts.map(({ id }) => ({ method: 'crm.contact.company.items.get', params: { id } })),
		);
		links.forEach((link, index) => {
			const contact = contacts[index];
			// One that could not be told stays undefined, and what is stored stays.
			if (contact && !(link instanceof Bitrix24Error)) contact.companyIds = linksOf(link.result);
		});
		return { contacts, at };
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
			const page = await itemPage(query);
			if (page.complete) return page;
			classic = true;
			return classicPage(query);
		},
		async lookUp(ids) {
			const found = new Map<number, Lookup>();
			for (let from = 0; from < ids.length; from += pageSize) {
				const some = ids.slice(from, from + pageSize);
				const answers = await client.batch(
					some.map((id) => ({ method: 'crm.item.get', params: { entityTypeId, id } })),
				);
				for (const [index, id] of some.entries()) found.set(id, toLookup(answers[index], id, fields));
			}
			return found;
		},
	};
}

function toLookup(answer: Answer | Bitrix24Error | undefined, id: number, fields: CustomFields): Lookup {
	if (answer instanceof Bitrix24Error) {
		if (answer.kind === 'not_found') return { state: 'deleted' };
		// Only what concerns this record may be taken for an answer about it.
		if (answer.kind === 'access_denied' || answer.kind === 'retry') return { state: 'unknown', code: answer.code };
		throw answer;
	}
	const contact = isRow(answer?.result) ? fromItem(answer.result.item, fields) : undefined;
	if (contact?.id !== id) return { state: 'unknown', code: 'no_item' };
	// A vendor of the catalogue is no ordinary contact (any more).
	return contact.categoryId === 0 ? { state: 'found', contact } : { state: 'deleted' };
}

/** Rows in strictly rising order behind the one that was last seen, each a contact: anything else is no page of contacts. */
function checkRows(
	method: string,
	rows: unknown,
	read: (row: unknown) => CrmContact | undefined,
	after: number,
): CrmContact[] {
	if (!Array.isArray(rows)) throw new Bitrix24Error('retry', 'no_rows', method);
	let last = after;
	return rows.map((row) => {
		const contact = read(row);
		if (contact === undefined || contact.id <= last) throw new Bitrix24Error('retry', 'rows_out_of_order', method);
		last = contact.id;
		return contact;
	});
}

async function readFields(client: RestClient, codes: FieldCodes): Promise<CustomFields> {
	if (codes.trouble === undefined && codes.reason === undefined) return { trouble: undefined, reason: undefined };
	const all = await client.call('crm.item.fields', { entityTypeId }, ({ result }) => {
		if (!isRow(result) || !isRow(result.fields)) throw new Bitrix24Error('retry', 'no_fields', 'crm.item.fields');
		return result.fields;
	});
	const find = (code: string | undefined): CustomField | undefined => {
		if (code === undefined) return undefined;
		const entry = Object.entries(all).find(([, field]) => isRow(field) && field.upperName === code);
		if (entry === undefined) throw new Bitrix24Error('stop', `no_field_${code}`, 'crm.item.fields');
		const [itemName, field] = entry as [string, Record<string, unknown>];
		const items = field.type === 'enumeration' && Array.isArray(field.items) ? field.items.filter(isRow) : undefined;
		return { itemName, code, options: items && new Map(items.map((item) => [String(item.ID), String(item.VALUE)])) };
	};
	return { trouble: find(codes.trouble), reason: find(codes.reason) };
}

/** With its offset: without one the portal takes it for its own local time. */
function isoTime(milliseconds: number): string {
	return `${new Date(milliseconds).toISOString().slice(0, 19)}+00:00`;
}
