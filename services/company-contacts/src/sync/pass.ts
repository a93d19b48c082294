import type { FastifyBaseLogger } from 'fastify';
import type { CrmContact } from './bitrix24/contact.js';
import type { Lookup, Portal } from './bitrix24/portal.js';
import type { RestClient } from './bitrix24/rest-client.js';
import type { Clock } from './clock.js';
import { type MappingOptions, mapContact, type StagedContact, type Unmapped } from './mapping.js';
import type { Session } from './session.js';

/** What every pass works with. */
export interface PassContext {
	portal: Portal;
	client: RestClient;
	session: Session;
	mapping: MappingOptions;
	clock: Clock;
	logger: FastifyBaseLogger;
	/** Called after each page, with the contacts seen so far and, where it is known, how many there are. */
	onProgress(seen: number, total: number | undefined): void;
	/** Called for what could not be mapped. */
	onUnmapped(what: Unmapped): void;
}

export interface PassCounts {
	seen: number;
	created: number;
	changed: number;
	deleted: number;
}

export const noCounts = (): PassCounts => ({ seen: 0, created: 0, changed: 0, deleted: 0 });

/**
 * Maps contacts. When one has an option of a list that was not known, the options are read again, at most once a pass: after
 * that the field stays null and is counted.
 */
export function createMapper({ portal, mapping, onUnmapped }: PassContext) {
	let refreshed = false;
	return async (contacts: CrmContact[]): Promise<StagedContact[]> => {
		let mapped = contacts.map((contact) => mapContact(contact, portal.fields(), mapping));
		if (!refreshed && mapped.some(({ unknownOption }) => unknownOption)) {
			refreshed = true;
			await portal.refreshFields();
			mapped = contacts.map((contact) => mapContact(contact, portal.fields(), mapping));
		}
		for (const { unmapped } of mapped) unmapped.forEach(onUnmapped);
		return mapped.map(({ contact }) => contact);
	};
}

export interface Sorted {
	found: CrmContact[];
	deleted: number[];
	/** IDs that nothing certain is known of, with the portal's code: they are left as they are. */
	unknown: Map<number, string>;
}

export function sortLookups(lookups: Map<number, Lookup>): Sorted {
	const sorted: Sorted = { found: [], deleted: [], unknown: new Map() };
	for (const [id, lookup] of lookups) {
		if (lookup.state === 'found') sorted.found.push(lookup.contact);
		else if (lookup.state === 'deleted') sorted.deleted.push(id);
		else sorted.unknown.set(id, lookup.code);
	}
	return sorted;
}
