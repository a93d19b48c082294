import { batchInParts } from './batch-in-parts.js';
import { classicPage, readParts } from './classic.js';
import {
	type CrmContact,
	type CustomFields,
	customFieldsOf,
	type FieldCodes,
	fromItem,
	isComplete,
	isRow,
	toPage,
} from './contact.js';
import { Bitrix24Error, concernsRecord } from './errors.js';
import { type Command, maxCommands, type Outcome, type RestClient } from './rest-client.js';

/** The type ID of contacts among the portal's items. */
const entityTypeId = 3;

/** The result of one request for single contacts. */
export interface LookUps {
	found: CrmContact[];
	/** IDs of contacts that don't exist (any more). */
	deleted: number[];
	/** IDs of contacts that the webhook's user may not read (any more). */
	denied: number[];
	/** IDs of contacts whose state is unclear, or that are incomplete, with a code. */
	unclear: Map<number, string>;
}

/** Ordinary contacts with a higher ID, changed at or after a time. */
export interface PageFilter {
	after: number;
	changedSince: string | undefined;
}

export interface Page {
	contacts: CrmContact[];
	/** The contacts that were not returned completely, with a code. */
	unclear: Map<number, string>;
	/** The number of contacts that were listed and are not in `contacts`, such as vendors where the filter is ignored. */
	leftOut: number;
	/** The ID of the last contact that was listed; undefined: there are no more. */
	last: number | undefined;
	/** The portal's clock; milliseconds since the epoch. */
	at: number | undefined;
}

/** The contacts of a portal. Every method throws Bitrix24Error. */
export interface Portal {
	/** How many ordinary contacts there are, or contacts of all categories if the filter is ignored, and the portal's clock. */
	count(): Promise<{ total: number | undefined; at: number }>;
	/**
	 * Up to 50 contacts with a higher ID, in the order of their IDs, changed at or after a time in milliseconds since the epoch.
	 * Only a page without a last contact is the end.
	 */
	page(query: { after: number; changedSince?: number }): Promise<Page>;
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
	// Whether crm.item.list lacks phones or companies, as on some portals. The first pages show it.
	let isClassic = false;
	let comparisons = maxComparisons;
	const proven = { companies: false, phones: false };

	async function itemPage({ after, changedSince }: PageFilter): Promise<Omit<Page, 'unclear'>> {
		const params = {
			entityTypeId,
			// Phones are returned only with all fields.
			select: ['*'],
			filter: { categoryId: 0, '>id': after, '>=updatedTime': changedSince },
			order: { id: 'ASC' },
			// No total count: it takes seconds for each page on a large portal.
			start: -1,
		};
		return client.call('crm.item.list', params, ({ result, at }) => {
			const rows = isRow(result) ? result.items : undefined;
			return { ...toPage('crm.item.list', rows, (row) => fromItem(row, fields), after), at };
		});
	}

	/**
	 * The lists of phones and companies inside a row may be silently incomplete. Until a list has returned a contact with two
	 * companies and one with a phone, its pages are compared with the same contacts from crm.item.get. A list is trusted only
	 * if crm.item.get returns nothing more.
	 */
	async function agreesWithItems(listed: CrmContact[]): Promise<boolean> {
		if (comparisons === 0 || listed.length === 0) return true;
		comparisons--;
		const outcomes = await batch(listed.map(({ id }) => itemCommand(id)));
		const items = new Map(
			outcomes.flatMap((outcome) => contactOf(outcome) ?? []).map((contact) => [contact.id, contact]),
		);
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

	async function* lookUp(ids: number[]): AsyncGenerator<LookUps> {
		for (let from = 0; from < ids.length; from += maxCommands) {
			const some = ids.slice(from, from + maxCommands);
			const outcomes = await batchInParts(client, some.map(itemCommand));
			const lookUps: LookUps = { found: [], deleted: [], denied: [], unclear: new Map() };
			for (const [index, id] of some.entries()) add(lookUps, id, outcomes[index]);
			try {
				// The portal has just returned them, so an empty list of companies is complete.
				if (!lookUps.found.every(isComplete)) await readParts(batch, lookUps.found, (links) => links);
			} catch (error) {
				lookUps.found = lookUps.found.filter(isComplete);
				yield lookUps;
				throw error;
			}
			for (const contact of lookUps.found) if (!isComplete(contact)) lookUps.unclear.set(contact.id, 'incomplete');
			lookUps.found = lookUps.found.filter(isComplete);
			yield lookUps;
			throwPortalError(outcomes);
		}
	}

	function add(lookUps: LookUps, id: number, outcome: Outcome | undefined): void {
		if (outcome instanceof Bitrix24Error) {
			if (outcome.kind === 'not_found') lookUps.deleted.push(id);
			else if (outcome.kind === 'access_denied') lookUps.denied.push(id);
			else if (concernsRecord(outcome)) lookUps.unclear.set(id, outcome.code);
			return;
		}
		const contact = contactOf(outcome);
		if (contact?.id !== id) lookUps.unclear.set(id, 'no_item');
		else if (contact.categoryId === undefined) lookUps.unclear.set(id, 'no_category');
		else if (contact.categoryId === 0) lookUps.found.push(contact);
		// A catalogue vendor is not an ordinary contact (any more).
		else lookUps.deleted.push(id);
	}

	/** The contact of crm.item.get, if it returned one. */
	function contactOf(outcome: Outcome | undefined): CrmContact | undefined {
		if (outcome === undefined || outcome instanceof Bitrix24Error || !isRow(outcome.result)) return undefined;
		return fromItem(outcome.result.item, fields);
	}

	async function batch(commands: Command[]): Promise<Outcome[]> {
		const outcomes = await batchInParts(client, commands);
		throwPortalError(outcomes);
		return outcomes;
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
		async page({ after, changedSince }) {
			const filter = { after, changedSince: changedSince === undefined ? undefined : isoTime(changedSince) };
			const separate = (page: Omit<Page, 'unclear'>): Page => {
				const incomplete = page.contacts.filter((contact) => !isComplete(contact));
				const unclear = new Map(incomplete.map(({ id }) => [id, 'incomplete']));
				return { ...page, contacts: page.contacts.filter(isComplete), unclear };
			};
			// A contact that is changed between the two calls differs as well: then the page agrees when it is read again.
			for (let tries = 0; tries < maxReads && !isClassic; tries++) {
				const page = await itemPage(filter);
				if (!page.contacts.every(isComplete)) break;
				if (await agreesWithItems(page.contacts)) return separate(page);
			}
			isClassic = true;
			return separate(await classicPage({ client, codes, fields, batch, lookUp }, filter));
		},
		lookUp,
	};
}

const itemCommand = (id: number): Command => ({ method: 'crm.item.get', params: { entityTypeId, id } });

/** Throws the first error that is about the portal and not about one record. */
function throwPortalError(outcomes: Outcome[]): void {
	const error = outcomes.find((outcome) => outcome instanceof Bitrix24Error && !concernsRecord(outcome));
	if (error !== undefined) throw error;
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
	return customFieldsOf(all, codes);
}
