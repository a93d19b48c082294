import {
	believed,
	type CrmContact,
	type CustomFields,
	classicPhones,
	fromItem,
	isComplete,
	isRow,
	linksOf,
} from './contact.js';
import { Bitrix24Error, concernsRecord } from './errors.js';
import type { Command, RestClient, RestResponse } from './rest-client.js';

/** The type ID of contacts among the portal's items. */
export const entityTypeId = 3;

/** Maximum number of commands in a batch, and of rows in a page. */
const pageSize = 50;

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

type Outcome = RestResponse | Bitrix24Error | undefined;

/** Reads contacts by their IDs in batches, and the data that is missing in list rows. */
export function createLookUps(client: RestClient, fields: () => CustomFields) {
	const contactOf = (outcome: Outcome) =>
		outcome instanceof Bitrix24Error || !isRow(outcome?.result) ? undefined : fromItem(outcome.result.item, fields());

	async function items(ids: number[]): Promise<Map<number, CrmContact>> {
		const outcomes = await client.batch(ids.map(itemCommand));
		throwPortalError(outcomes);
		const found = outcomes.flatMap((outcome) => contactOf(outcome) ?? []);
		return new Map(found.map((contact) => [contact.id, contact]));
	}

	async function* lookUp(ids: number[]): AsyncGenerator<LookUps> {
		for (const some of inBatches(ids)) {
			const outcomes = await client.batch(some.map(itemCommand));
			const lookUps: LookUps = { found: [], deleted: [], denied: [], unclear: new Map() };
			for (const [index, id] of some.entries()) add(lookUps, id, outcomes[index], contactOf(outcomes[index]));
			try {
				// The portal has just returned them, so an empty list of companies is complete.
				await readParts(lookUps.found, (links) => links);
			} catch (error) {
				lookUps.found = lookUps.found.filter(isComplete);
				yield lookUps;
				throw error;
			}
			for (const contact of lookUps.found) if (!isComplete(contact)) lookUps.unclear.set(contact.id, 'incomplete');
			yield lookUps;
			throwPortalError(outcomes);
		}
	}

	/** Reads the missing companies and phones. What can't be read stays undefined. */
	async function readParts(
		contacts: CrmContact[],
		believe: (links: unknown[] | undefined, contact: CrmContact) => unknown[] | undefined,
	): Promise<void> {
		const missing = contacts.flatMap((contact) => [
			...(contact.companyIds === undefined ? [{ contact, method: 'crm.contact.company.items.get' }] : []),
			...(contact.phones === undefined ? [{ contact, method: 'crm.contact.get' }] : []),
		]);
		for (const some of inBatches(missing)) {
			const outcomes = await client.batch(some.map(({ contact, method }) => ({ method, params: { id: contact.id } })));
			throwPortalError(outcomes);
			for (const [index, { contact, method }] of some.entries()) {
				const outcome = outcomes[index];
				if (outcome === undefined || outcome instanceof Bitrix24Error) continue;
				if (method !== 'crm.contact.get') contact.companyIds = believe(linksOf(outcome.result), contact);
				else if (isRow(outcome.result)) contact.phones = classicPhones(outcome.result);
			}
		}
	}

	/**
	 * Completes the contacts of a page. A contact that stays incomplete is looked up. If it was deleted, or is no longer
	 * readable, it is left out.
	 */
	async function complete(contacts: CrmContact[]): Promise<CrmContact[]> {
		// A contact that was deleted meanwhile has no companies either.
		await readParts(contacts, (links, { hasCompany }) => believed(links, hasCompany));
		const incomplete = contacts.filter((contact) => !isComplete(contact)).map(({ id }) => id);
		const found = new Map<number, CrmContact>();
		const gone = new Set<number>();
		for await (const lookUps of lookUp(incomplete)) {
			for (const contact of lookUps.found) found.set(contact.id, contact);
			for (const id of [...lookUps.deleted, ...lookUps.denied]) gone.add(id);
		}
		return contacts.filter(({ id }) => !gone.has(id)).map((contact) => found.get(contact.id) ?? contact);
	}

	return { items, lookUp, complete };
}

const itemCommand = (id: number): Command => ({ method: 'crm.item.get', params: { entityTypeId, id } });

function add(lookUps: LookUps, id: number, outcome: Outcome, contact: CrmContact | undefined): void {
	if (outcome instanceof Bitrix24Error) {
		if (outcome.kind === 'not_found') lookUps.deleted.push(id);
		else if (outcome.kind === 'access_denied') lookUps.denied.push(id);
		else if (concernsRecord(outcome)) lookUps.unclear.set(id, outcome.code);
	} else if (contact?.id !== id) lookUps.unclear.set(id, 'no_item');
	else if (contact.categoryId === undefined) lookUps.unclear.set(id, 'no_category');
	else if (contact.categoryId === 0) lookUps.found.push(contact);
	// A catalogue vendor is not an ordinary contact (any more).
	else lookUps.deleted.push(id);
}

/** Throws the first error that is about the portal and not about one record. */
function throwPortalError(outcomes: Outcome[]): void {
	const error = outcomes.find((outcome) => outcome instanceof Bitrix24Error && !concernsRecord(outcome));
	if (error !== undefined) throw error;
}

function* inBatches<T>(all: T[]): Generator<T[]> {
	for (let from = 0; from < all.length; from += pageSize) yield all.slice(from, from + pageSize);
}
