import type { FastifyBaseLogger } from 'fastify';
import type { Clock } from './bitrix24/clock.js';
import type { Portal } from './bitrix24/portal.js';
import type { MappingOptions, Unmapped } from './mapping.js';
import type { Session } from './session.js';

/** The dependencies of every pass. */
export interface PassContext {
	portal: Portal;
	session: Session;
	mapping: MappingOptions;
	clock: Clock;
	logger: FastifyBaseLogger;
	/** The run's row in `crm_sync_runs`. */
	runId: number;
	/** Called after each page with the number of contacts so far and, if known, the total. */
	onProgress(seen: number, total: number | undefined): void;
	/** Called for each value that could not be mapped. */
	onUnmapped(what: Unmapped): void;
	/** Called for contacts that could not be read completely: their stored values stay. */
	onUnread(pass: UnreadBy, contacts: number): void;
}

/** The passes that can find an unreadable contact. */
export const unreadBy = ['full', 'incremental', 'events'] as const;
export type UnreadBy = (typeof unreadBy)[number];

export interface PassCounts {
	seen: number;
	created: number;
	changed: number;
	deleted: number;
	/** Set if a full pass has put its deletions on hold. */
	isHeld?: boolean;
}

/** A pass did not read everything. It deleted nothing and does not count as a success. */
export class IncompletePassError extends Error {
	override name = 'IncompletePassError';
	/** How many contacts the portal returned incompletely. */
	contacts = 0;

	/** @param codes of these contacts, with how often each occurred, as far as this process knows */
	static ofContacts(contacts: number, codes: ReadonlyMap<string, number>): IncompletePassError {
		const details = [...codes].map(([code, count]) => `${code} (${count})`).join(', ');
		const error = new IncompletePassError(
			`${contacts} contacts that the portal did not return completely stay as they are${details && `: ${details}`}`,
		);
		error.contacts = contacts;
		return error;
	}
}

/** Counts codes by themselves. */
export function countCodes(counts: Map<string, number>, codes: Iterable<string>): void {
	for (const code of codes) counts.set(code, (counts.get(code) ?? 0) + 1);
}
