import type { Clock } from '@contacts/bitrix24/clock.js';
import type { Portal } from '@contacts/bitrix24/portal.js';
import type { FastifyBaseLogger } from 'fastify';
import type { MappingOptions, Unmapped } from './mapping.js';
import type { Session } from './session.js';

/** What every pass works with. */
export interface PassContext {
	portal: Portal;
	session: Session;
	mapping: MappingOptions;
	clock: Clock;
	logger: FastifyBaseLogger;
	/** Called after each page, with the contacts seen so far and, where it is known, how many there are. */
	onProgress(seen: number, total: number | undefined): void;
	/** Called for each value that could not be mapped. */
	onUnmapped(what: Unmapped): void;
	/** Called for contacts that could not be read, or not completely: what is stored of them stays. */
	onUnread(pass: UnreadBy, contacts: number): void;
}

/** The passes that can find a contact which can't be read. */
export const unreadBy = ['full', 'incremental', 'events'] as const;
export type UnreadBy = (typeof unreadBy)[number];

export interface PassCounts {
	seen: number;
	created: number;
	changed: number;
	deleted: number;
}

/** A pass did not read everything: it has deleted nothing and does not count as a success. */
export class IncompletePassError extends Error {
	override name = 'IncompletePassError';

	/** The portal returned contacts without some of their columns. */
	static ofContacts(contacts: number, columns: Iterable<string>): IncompletePassError {
		return new IncompletePassError(
			`the portal did not return ${[...columns].sort().join(', ')} of ${contacts} contacts`,
		);
	}
}
