import type { FastifyBaseLogger } from 'fastify';
import { type CrmContact, isWhole } from './bitrix24/contact.js';
import type { Portal } from './bitrix24/portal.js';
import type { RestClient } from './bitrix24/rest-client.js';
import type { Lookup } from './bitrix24/singles.js';
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
	/** Called for contacts that could not be read, or not wholly: what is stored of them stays. */
	onUnread(pass: UnreadBy, contacts: number): void;
}

/** Where a contact could not be read. */
export const unreadBy = ['full', 'incremental', 'events'] as const;
export type UnreadBy = (typeof unreadBy)[number];

/** A pass did not bring what it had to, so it is no success: nothing was deleted, and its time does not count. */
export class IncompletePass extends Error {
	override name = 'IncompletePass';
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

/** The columns that the portal did not tell, and of how many contacts. */
export function describeUntold(contacts: number, columns: readonly string[]): string {
	return `the portal did not tell ${[...columns].sort().join(', ')} of ${contacts} contacts`;
}

export interface Sorted {
	found: CrmContact[];
	deleted: number[];
	/** May not be read any more: they are left as they are. */
	denied: number[];
	/** IDs that nothing certain is known of, or not everything, with a code: they have to be asked for again. */
	unknown: Map<number, string>;
}

export function sortLookups(lookups: Map<number, Lookup>): Sorted {
	const sorted: Sorted = { found: [], deleted: [], denied: [], unknown: new Map() };
	for (const [id, lookup] of lookups) {
		if (lookup.state === 'unknown') sorted.unknown.set(id, lookup.code);
		else if (lookup.state === 'deleted') sorted.deleted.push(id);
		else if (lookup.state === 'denied') sorted.denied.push(id);
		else {
			sorted.found.push(lookup.contact);
			if (!isWhole(lookup.contact)) sorted.unknown.set(id, 'incomplete');
		}
	}
	return sorted;
}
