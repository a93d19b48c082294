import {
	believed,
	type CrmContact,
	type CustomFields,
	classicFields,
	classicPhones,
	type FieldCodes,
	fromClassic,
	isComplete,
	isRow,
	linksOf,
	toPage,
} from './contact.js';
import { Bitrix24Error } from './errors.js';
import type { LookUps, Page, PageFilter } from './portal.js';
import { type Command, maxCommands, type Outcome, type RestClient } from './rest-client.js';

// "Classic" means the deprecated crm.contact.* methods. Only the portals whose crm.item.* returns no phones or companies need
// them.

/** Throws an error that is about the portal and not about one record. */
type Batch = (commands: Command[]) => Promise<Outcome[]>;

interface ClassicPortal {
	client: RestClient;
	codes: FieldCodes;
	fields: CustomFields;
	batch: Batch;
	lookUp(ids: number[]): AsyncGenerator<LookUps>;
}

/** A page of crm.contact.list, which is deprecated. Phones and companies are read with other calls. */
export async function classicPage(
	portal: ClassicPortal,
	{ after, changedSince }: PageFilter,
): Promise<Omit<Page, 'unclear'>> {
	const { client, codes } = portal;
	const params = {
		select: [...classicFields, ...Object.values(codes).filter(Boolean)],
		filter: { CATEGORY_ID: 0, '>ID': after, '>=DATE_MODIFY': changedSince },
		order: { ID: 'ASC' },
		start: -1,
	};
	const page = await client.call('crm.contact.list', params, ({ result, at }) => ({
		...toPage('crm.contact.list', result, (row) => fromClassic(row, portal.fields), after),
		at,
	}));
	const contacts = await complete(portal, page.contacts);
	return { ...page, contacts, leftOut: page.leftOut + page.contacts.length - contacts.length };
}

/** Completes the contacts of a page. A contact that stays incomplete is looked up, and left out if it is not found. */
async function complete(portal: ClassicPortal, contacts: CrmContact[]): Promise<CrmContact[]> {
	// A contact that was deleted meanwhile has no companies either.
	await readParts(portal.batch, contacts, (links, { hasCompany }) => believed(links, hasCompany));
	const incomplete = contacts.filter((contact) => !isComplete(contact)).map(({ id }) => id);
	const found = new Map<number, CrmContact>();
	const gone = new Set<number>();
	for await (const lookUps of portal.lookUp(incomplete)) {
		for (const contact of lookUps.found) found.set(contact.id, contact);
		for (const id of [...lookUps.deleted, ...lookUps.denied]) gone.add(id);
	}
	return contacts.filter(({ id }) => !gone.has(id)).map((contact) => found.get(contact.id) ?? contact);
}

/** Reads the missing companies and phones. What can't be read stays undefined. */
export async function readParts(
	batch: Batch,
	contacts: CrmContact[],
	believe: (links: unknown[] | undefined, contact: CrmContact) => unknown[] | undefined,
): Promise<void> {
	const missing = contacts.flatMap((contact) => [
		...(contact.companyIds === undefined ? [{ contact, method: 'crm.contact.company.items.get' }] : []),
		...(contact.phones === undefined ? [{ contact, method: 'crm.contact.get' }] : []),
	]);
	for (let from = 0; from < missing.length; from += maxCommands) {
		const some = missing.slice(from, from + maxCommands);
		const outcomes = await batch(some.map(({ contact, method }) => ({ method, params: { id: contact.id } })));
		for (const [index, { contact, method }] of some.entries()) {
			const outcome = outcomes[index];
			if (outcome === undefined || outcome instanceof Bitrix24Error) continue;
			if (method !== 'crm.contact.get') contact.companyIds = believe(linksOf(outcome.result), contact);
			else if (isRow(outcome.result)) contact.phones = classicPhones(outcome.result);
		}
	}
}
