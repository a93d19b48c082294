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
}

/** A pass did not read everything. It deleted nothing and does not count as a success. */
export class IncompletePassError extends Error {
	override name = 'IncompletePassError';

	/** @param codes of contacts that could not be read, such as `companyIds.absent` */
	static ofContacts(codes: Iterable<string>): IncompletePassError {
		const counts = new Map<string, number>();
		for (const code of codes) counts.set(code, (counts.get(code) ?? 0) + 1);
		const each = [...counts].map(([code, count]) => `${code} (${count})`).join(', ');
		return new IncompletePassError(`contacts that the portal did not return completely stay as they are: ${each}`);
	}
}
