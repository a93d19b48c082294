import { type Command, type CommandResult, type CrmClient, type CrmResponse, maxCommands } from './client.js';
import {
	type CrmContact,
	type CustomFields,
	contactOf,
	customFieldsOf,
	type FieldCodes,
	hasLess,
	type Item,
	isRow,
	positiveInteger,
	readItem,
} from './contact.js';
import { Bitrix24Error, type ErrorKind } from './errors.js';

/** The type ID of contacts among the CRM's items. */
const entityTypeId = 3;

/** What a request for contacts has found. */
export interface Found<Contact = CrmContact> {
	contacts: Contact[];
	/**
	 * IDs of contacts that could not be read, each with a code: that of an error, or of the fields that are absent, such as
	 * `no_companyIds`.
	 */
	unread: Map<number, string>;
	/** IDs of contacts that don't exist (any more). */
	deleted: number[];
	/** IDs of contacts that the webhook's user may not read (any more). */
	denied: number[];
}

export interface Page extends Found {
	/** The ID of the last contact that was listed; undefined: there are no more. */
	last: number | undefined;
	/** The CRM's clock; milliseconds since the epoch. */
	at: number | undefined;
}

/** The categories of contacts, by their IDs. */
interface Categories {
	/** Those whose contacts are mirrored: the general one, and those that somebody has added. */
	ordinary: ReadonlySet<number>;
	/** Those that the CRM has made for itself, such as that of the catalogue's vendors. */
	system: ReadonlySet<number>;
	/** The code with which the CRM has refused to tell its categories. Only the general one is then read. */
	refusedBy?: string;
}

interface PageQuery {
	after: number;
	changedSince?: number;
}

export type Crm = ReturnType<typeof createCrm>;

/** The ID of the general category, which every CRM has. */
const general = 0;

/** These say that the CRM does not tell its categories. Any other error is one of the whole CRM, or temporary. */
const refusals = ['ERROR_METHOD_NOT_FOUND', 'ACCESS_DENIED', 'INSUFFICIENT_SCOPE'];

/** Contacts have no categories but the general one. */
const notSupported = 'ENTITY_TYPE_NOT_SUPPORTED';

/** Maximum number of contacts to compare. A CRM may have none with two companies, so a list can't always be proven complete. */
const maxCompared = 1000;

/**
 * The contacts of a CRM. Every method throws Bitrix24Error. `waits` is whether to wait for the end of a rate-limit pause.
 *
 * @param codes which custom field has which meaning
 */
export function createCrm(client: CrmClient, codes: FieldCodes) {
	let fields: CustomFields = { trouble: undefined, reason: undefined };
	let categories: Categories = { ordinary: new Set([general]), system: new Set() };
	let hasReadAgain = false;
	// No documentation says whether crm.item.list returns all companies; crm.item.get does.
	let listReturns: 'unknown' | 'everything' | 'less' = 'unknown';
	const compared = new Set<number>();
	let hasTwoCompanies = false;

	/** Compares rows of a page with the same contacts as crm.item.get returned them. */
	function compare(listed: Item[], items: Map<number, Item>): void {
		for (const row of listed) {
			const item = items.get(row.id);
			// Of a contact that was changed between the two requests, the later row may have more.
			if (item === undefined || timeOf(item) !== timeOf(row)) continue;
			if (hasLess(row, item)) listReturns = 'less';
			compared.add(item.id);
			hasTwoCompanies ||= (item.fields.companyIds?.length ?? 0) > 1;
		}
		const isProven = hasTwoCompanies || compared.size >= maxCompared;
		if (listReturns === 'unknown' && isProven) listReturns = 'everything';
	}

	/** Reads all pages of the list of categories. */
	async function readCategories(waits: boolean): Promise<void> {
		const ordinary = new Set([general]);
		const system = new Set<number>();
		try {
			for (let start = 0, total = 1; start < total; ) {
				const params = { entityTypeId, start };
				const page = await client.call('crm.category.list', params, readCategoryPage, { waits });
				// The general one is no system category, whatever the CRM says of it.
				for (const { id, isSystem } of page.categories) (isSystem && id !== general ? system : ordinary).add(id);
				if (page.categories.length === 0) break;
				start += page.categories.length;
				total = page.total ?? start;
			}
			categories = { ordinary, system };
		} catch (error) {
			const code = error instanceof Bitrix24Error ? error.code.toUpperCase() : '';
			if (![...refusals, notSupported].includes(code)) throw error;
			categories = { ordinary, system, ...(code !== notSupported && { refusedBy: code }) };
		}
	}

	const isKnown = (id: number) => categories.ordinary.has(id) || categories.system.has(id);

	/** Whether contacts of this category are certainly not mirrored. */
	const isForeign = ({ categoryId: id }: Item) =>
		id !== undefined &&
		(categories.system.has(id) || (categories.refusedBy !== undefined && !categories.ordinary.has(id)));

	/** Reads up to 50 contacts by their IDs in one request, with the CRM's error if there was one beside the results. */
	async function lookUpSome(ids: number[], waits: boolean) {
		const outcomes = await client.batch(ids.map(itemCommand), { waits });
		const found: Found = { contacts: [], unread: new Map(), deleted: [], denied: [] };
		const items = new Map<number, Item>();
		for (const [index, id] of ids.entries()) {
			const outcome = outcomes[index];
			if (outcome === undefined || outcome instanceof Bitrix24Error) continue;
			const item = isRow(outcome.result) ? readItem(outcome.result.item, fields) : undefined;
			if (item?.id === id) items.set(id, item);
		}
		const isNew = [...items.values()].some(({ categoryId }) => categoryId !== undefined && !isKnown(categoryId));
		if (isNew && !hasReadAgain && categories.refusedBy === undefined) {
			hasReadAgain = true;
			await readCategories(waits);
		}
		for (const [index, id] of ids.entries()) add(found, id, outcomes[index], items.get(id), categories);
		const errors = outcomes.filter((outcome) => outcome instanceof Bitrix24Error);
		const errorOf = (kind: ErrorKind) => errors.find((each) => each.kind === kind);
		return { found, items, error: errorOf('stop') ?? errorOf('pause') ?? errorOf('slow_down') };
	}

	const categoryFilter = () => ({ '@categoryId': [...categories.ordinary] });

	/** The parameters of crm.item.list for a page. */
	function pageParams({ after, changedSince }: PageQuery): Record<string, unknown> {
		return {
			entityTypeId,
			// Phones are returned only with all fields.
			select: ['*'],
			filter: { ...categoryFilter(), '>id': after, '>=updatedTime': isoTime(changedSince) },
			order: { id: 'ASC' },
			// No total count: it takes seconds for each page of a large CRM.
			start: -1,
		};
	}

	return {
		/**
		 * Reads the categories. Before that, only the general one is known. When a contact is in one that is not known, they are read
		 * again, once until the next call.
		 */
		async readCategories({ waits }: { waits: boolean }): Promise<void> {
			hasReadAgain = false;
			await readCategories(waits);
		},
		categories: () => categories,
		fields: () => fields,
		/**
		 * Reads the custom fields and their options. Before that, there are none. A configured field that the CRM lacks is an error, so
		 * that nothing is overwritten with nulls.
		 */
		async readFields(options?: { waits: boolean }): Promise<void> {
			if (codes.trouble === undefined && codes.reason === undefined) return;
			const read = ({ result }: CrmResponse) => {
				if (!isRow(result) || !isRow(result.fields)) throw new Bitrix24Error('retry', 'no_fields', 'crm.item.fields');
				return customFieldsOf(result.fields, codes);
			};
			fields = await client.call('crm.item.fields', { entityTypeId }, read, options);
		},
		/** How many contacts there are in the ordinary categories, and the CRM's clock. */
		async count() {
			const params = { entityTypeId, select: ['id'], filter: categoryFilter(), order: { id: 'ASC' }, start: 0 };
			const { total, at } = await client.call('crm.item.list', params, (response) => response);
			if (at === undefined) throw new Bitrix24Error('stop', 'no_portal_clock', 'crm.item.list');
			return { total, at };
		},
		pageParams,
		/**
		 * Up to 50 contacts with a higher ID, in the order of their IDs, changed at or after a time in milliseconds since the epoch. Only a
		 * page without a last contact is the end.
		 */
		async page(query: PageQuery): Promise<Page> {
			const { rows, at } = await client.call('crm.item.list', pageParams(query), ({ result, at }) => ({
				rows: readRows(isRow(result) ? result.items : undefined, fields, query.after),
				at,
			}));
			const end = { last: rows.at(-1)?.id, at };
			// Not even if a CRM should ignore the filter.
			const listed = rows.filter((row) => !isForeign(row));
			const isTrusted = ({ categoryId, contradicts }: Item) =>
				listReturns === 'everything' && !contradicts && categories.ordinary.has(categoryId ?? Number.NaN);
			const contacts = listed.flatMap((row) => (isTrusted(row) && contactOf(row)) || []);
			const trusted = new Set(contacts.map(({ id }) => id));
			const doubtful = listed.filter(({ id }) => !trusted.has(id));
			if (doubtful.length === 0) return { ...end, contacts, unread: new Map(), deleted: [], denied: [] };
			const ids = doubtful.map(({ id }) => id);
			const { found, items, error } = await lookUpSome(ids, true);
			if (error !== undefined) throw error;
			compare(doubtful, items);
			return { ...end, ...found, contacts: [...contacts, ...found.contacts] };
		},
		/**
		 * Reads contacts by their IDs, 50 a request, and yields the result of each request: results next to an error of the CRM are
		 * yielded before the error is thrown.
		 */
		async *lookUp(ids: number[], { waits }: { waits: boolean }): AsyncGenerator<Found> {
			for (let from = 0; from < ids.length; from += maxCommands) {
				const { found, error } = await lookUpSome(ids.slice(from, from + maxCommands), waits);
				yield found;
				if (error !== undefined) throw error;
			}
		},
	};
}

/** NaN, which equals no time, if it can't be read. */
export const timeOf = ({ updatedTime }: Item): number =>
	typeof updatedTime === 'string' ? Date.parse(updatedTime) : Number.NaN;

export const itemCommand = (id: number): Command => ({ method: 'crm.item.get', params: { entityTypeId, id } });

function add(found: Found, id: number, outcome: CommandResult | undefined, item: Item | undefined, known: Categories) {
	const { contacts, unread, deleted, denied } = found;
	if (outcome instanceof Bitrix24Error) {
		const { kind, code } = outcome;
		if (kind === 'not_found') deleted.push(id);
		else if (kind === 'access_denied') denied.push(id);
		else if (kind === 'retry' || kind === 'unread') unread.set(id, code);
	} else if (item === undefined) unread.set(id, 'no_item');
	else if (item.categoryId === undefined) unread.set(id, 'no_category');
	// The CRM itself says that this is not an ordinary contact (any more).
	else if (known.system.has(item.categoryId)) deleted.push(id);
	else if (!known.ordinary.has(item.categoryId)) {
		if (known.refusedBy === undefined) unread.set(id, 'unknown_category');
		else denied.push(id);
	} else {
		const contact = contactOf(item);
		if (contact === undefined) unread.set(id, `no_${item.absent.join('_')}`);
		else contacts.push(contact);
	}
}

/** @throws Bitrix24Error `retry`: a category that is left out would be taken for an unknown one */
function readCategoryPage({ result, total }: CrmResponse) {
	const rows = isRow(result) ? result.categories : undefined;
	if (!Array.isArray(rows)) throw new Bitrix24Error('retry', 'no_categories', 'crm.category.list');
	const categories = rows.map((row) => {
		const id = isRow(row) && (row.id === general || row.id === `${general}` ? general : positiveInteger(row.id));
		if (!isRow(row) || typeof id !== 'number') throw new Bitrix24Error('retry', 'no_category_id', 'crm.category.list');
		return { id, isSystem: row.isSystem === 'Y' };
	});
	return { categories, total };
}

/**
 * Reads rows in strictly ascending order, after the last seen one. Anything else is not a valid page.
 *
 * @throws Bitrix24Error `retry`
 */
function readRows(rows: unknown, fields: CustomFields, after: number): Item[] {
	if (!Array.isArray(rows)) throw new Bitrix24Error('retry', 'no_rows', 'crm.item.list');
	let last = after;
	return rows.map((row) => {
		const item = readItem(row, fields);
		if (item === undefined || item.id <= last) throw new Bitrix24Error('retry', 'rows_out_of_order', 'crm.item.list');
		last = item.id;
		return item;
	});
}

/** Adds an offset. Without one, the CRM reads the time as its local time. */
function isoTime(milliseconds: number | undefined): string | undefined {
	return milliseconds === undefined ? undefined : `${new Date(milliseconds).toISOString().slice(0, 19)}+00:00`;
}
