import {
	believed,
	type CrmContact,
	type CustomFields,
	classicPhones,
	fromItem,
	isRow,
	isWhole,
	linksOf,
} from './contact.js';
import { Bitrix24Error, concernsRecord } from './errors.js';
import type { Answer, Command, RestClient } from './rest-client.js';

/** The type ID of contacts among the portal's items. */
export const entityTypeId = 3;

/** The most commands of a batch, and rows of a page. */
export const pageSize = 50;

/** What became of one contact that was asked for by its ID. */
export type Lookup =
	| { state: 'found'; contact: CrmContact }
	| { state: 'deleted' }
	| { state: 'denied' }
	| { state: 'unknown'; code: string };

type Outcome = Answer | Bitrix24Error | undefined;

/** Asks for contacts one by one, in batches, and for what a row of a list leaves out. */
export function createSingles(client: RestClient, fields: () => CustomFields) {
	async function items(ids: number[]): Promise<Map<number, CrmContact>> {
		const answers = await client.batch(ids.map(itemCommand));
		throwWhatConcernsMore(answers);
		const found = answers.flatMap((answer) => contactOf(answer) ?? []);
		return new Map(found.map((contact) => [contact.id, contact]));
	}

	const contactOf = (answer: Outcome) =>
		answer instanceof Bitrix24Error || !isRow(answer?.result) ? undefined : fromItem(answer.result.item, fields());

	async function* lookUp(ids: number[]): AsyncGenerator<Map<number, Lookup>> {
		for (const some of inBatches(ids)) {
			const answers = await client.batch(some.map(itemCommand));
			const lookups = new Map<number, Lookup>();
			for (const [index, id] of some.entries()) {
				const answer = answers[index];
				if (answer instanceof Bitrix24Error && !concernsRecord(answer)) continue;
				lookups.set(id, toLookup(answer, contactOf(answer), id));
			}
			try {
				// The portal has just told that they exist, so an empty list of companies is one.
				await readParts(foundIn(lookups), (links) => links);
			} catch (error) {
				for (const { id } of foundIn(lookups).filter((contact) => !isWhole(contact))) lookups.delete(id);
				yield lookups;
				throw error;
			}
			yield lookups;
			throwWhatConcernsMore(answers);
		}
	}

	/** Reads the companies and phones that were not told. What can't be read stays undefined. */
	async function readParts(
		contacts: CrmContact[],
		believe: (links: unknown[] | undefined, contact: CrmContact) => unknown[] | undefined,
	): Promise<void> {
		const questions = contacts.flatMap((contact) => [
			...(contact.companyIds === undefined ? [{ contact, method: 'crm.contact.company.items.get' }] : []),
			...(contact.phones === undefined ? [{ contact, method: 'crm.contact.get' }] : []),
		]);
		for (const some of inBatches(questions)) {
			const answers = await client.batch(some.map(({ contact, method }) => ({ method, params: { id: contact.id } })));
			throwWhatConcernsMore(answers);
			for (const [index, { contact, method }] of some.entries()) {
				const answer = answers[index];
				if (answer === undefined || answer instanceof Bitrix24Error) continue;
				if (method !== 'crm.contact.get') contact.companyIds = believe(linksOf(answer.result), contact);
				else if (isRow(answer.result)) contact.phones = classicPhones(answer.result);
			}
		}
	}

	/**
	 * Completes the contacts of a page. Those whose parts can't be read are looked up: one that is gone, or may not be read any
	 * more, is left out as if it had not been listed, and one that stays unclear is incomplete.
	 */
	async function complete(contacts: CrmContact[]): Promise<CrmContact[]> {
		// A contact that was deleted meanwhile has no companies either.
		await readParts(contacts, (links, { hasCompany }) => believed(links, hasCompany));
		const partial = contacts.filter((contact) => !isWhole(contact)).map(({ id }) => id);
		const lookups = new Map<number, Lookup>();
		for await (const some of lookUp(partial)) for (const [id, lookup] of some) lookups.set(id, lookup);
		return contacts.flatMap((contact) => {
			const lookup = lookups.get(contact.id);
			if (lookup === undefined || lookup.state === 'unknown') return contact;
			return lookup.state === 'found' ? lookup.contact : [];
		});
	}

	return { items, lookUp, complete };
}

const itemCommand = (id: number): Command => ({ method: 'crm.item.get', params: { entityTypeId, id } });

function toLookup(answer: Outcome, contact: CrmContact | undefined, id: number): Lookup {
	if (answer instanceof Bitrix24Error) {
		if (answer.kind === 'not_found') return { state: 'deleted' };
		return answer.kind === 'access_denied' ? { state: 'denied' } : { state: 'unknown', code: answer.code };
	}
	if (contact?.id !== id) return { state: 'unknown', code: 'no_item' };
	if (contact.categoryId === undefined) return { state: 'unknown', code: 'no_category' };
	// A vendor of the catalogue is no ordinary contact (any more).
	return contact.categoryId === 0 ? { state: 'found', contact } : { state: 'deleted' };
}

const foundIn = (lookups: Map<number, Lookup>): CrmContact[] =>
	[...lookups.values()].flatMap((lookup) => (lookup.state === 'found' ? lookup.contact : []));

/** Holds, stops and slow-downs are no answer about a record. */
function throwWhatConcernsMore(answers: Outcome[]): void {
	const error = answers.find((answer) => answer instanceof Bitrix24Error && !concernsRecord(answer));
	if (error !== undefined) throw error;
}

function* inBatches<T>(all: T[]): Generator<T[]> {
	for (let from = 0; from < all.length; from += pageSize) yield all.slice(from, from + pageSize);
}
