import type { ContactColumn } from '@contacts/common/company-contacts/company-contact-columns.sql.js';
import type { FastifyBaseLogger } from 'fastify';
import type { Clock } from './bitrix24/clock.js';
import type { Crm } from './bitrix24/crm.js';
import type { MappingOptions } from './mapping.js';
import type { Session } from './session.js';
import type { RunKind } from './sync.sql.js';

/** The dependencies of every sync run. */
export interface RunContext {
	crm: Crm;
	session: Session;
	mapping: MappingOptions;
	clock: Clock;
	logger: FastifyBaseLogger;
	/** The run's row in `crm_sync_runs`. */
	runId: number;
	/** Called after each page with the number of contacts so far and, if known, the total. */
	onProgress(seen: number, total: number | undefined): void;
	/** Called for each value that could not be mapped, or was cut. */
	onUnmapped(column: ContactColumn): void;
	/** Called for contacts that the CRM did not return, or not completely: what is stored of them stays. */
	onUnread(run: RunKind, contacts: number): void;
}

export interface Counts {
	seen: number;
	created: number;
	changed: number;
	deleted: number;
	/** Set if a full run holds what it would have taken away. */
	isHeld?: boolean;
	/** How many phones a full run has replaced by another number, and how many it has taken away. */
	phones?: { changed: number; removed: number };
}

/** Adds what a page or another run has done. */
export function addCounts(counts: Counts, more: Counts): void {
	for (const name of ['seen', 'created', 'changed', 'deleted'] as const) counts[name] += more[name];
}

/**
 * Whether so many contacts of the mirror are more than people change in a day, or all that there are. Then it is rather the CRM that has
 * changed, or what the webhook's user may read, and not the contacts.
 */
export function isLoss(contacts: number, live: number): boolean {
	return contacts > Math.max(20, live * 0.02) || (live > 0 && contacts >= live);
}

/** The maximum number of examples: a CRM may return a different code for each contact. */
const maxExamples = 10;

/** Adds one of the unread contacts for each code, so that somebody can look at it. */
export function addExamples(examples: Map<string, number>, unread: ReadonlyMap<number, string>): void {
	for (const [id, code] of unread) if (examples.size < maxExamples && !examples.has(code)) examples.set(code, id);
}

/** A run did not read everything: the mirror is not known to be equal to the CRM. */
export class IncompleteRunError extends Error {
	override name = 'IncompleteRunError';

	/** @param counts what the run has done nevertheless, and how many contacts are unread */
	constructor(
		message: string,
		readonly counts: Counts & { unread: number },
	) {
		super(message);
	}

	/** @param examples of the unread contacts by their codes, as far as this process knows */
	static ofContacts(unread: number, examples: ReadonlyMap<string, number>, counts: Counts): IncompleteRunError {
		const details = [...examples].map(([code, id]) => `${code} (contact ${id})`).join(', ');
		return new IncompleteRunError(
			`${unread} contacts that the CRM did not return completely stay as they are${details && `: ${details}`}`,
			{ ...counts, unread },
		);
	}
}
