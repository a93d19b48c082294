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
	/** Called for contacts that could not be read completely: their stored values stay. */
	onUnread(run: RunKind, contacts: number): void;
}

export interface Counts {
	seen: number;
	created: number;
	changed: number;
	deleted: number;
	/** Set if a full run has put its deletions on hold. */
	isHeld?: boolean;
}

/** Adds what a page or another run has done. */
export function addCounts(counts: Counts, more: Counts): void {
	for (const name of ['seen', 'created', 'changed', 'deleted'] as const) counts[name] += more[name];
}

/** The maximum number of examples: a CRM may return a different code for each contact. */
const maxExamples = 10;

/** Adds one of the contacts that could not be read for each code, so that somebody can look at it. */
export function addExamples(examples: Map<string, number>, unclear: ReadonlyMap<number, string>): void {
	for (const [id, code] of unclear) if (examples.size < maxExamples && !examples.has(code)) examples.set(code, id);
}

/** A run did not read everything. It deleted nothing and does not count as a success. */
export class IncompleteRunError extends Error {
	override name = 'IncompleteRunError';
	/** How many contacts the CRM returned incompletely. */
	contacts = 0;

	/** @param examples of these contacts by their codes, as far as this process knows */
	static ofContacts(contacts: number, examples: ReadonlyMap<string, number>): IncompleteRunError {
		const details = [...examples].map(([code, id]) => `${code} (contact ${id})`).join(', ');
		const error = new IncompleteRunError(
			`${contacts} contacts that the CRM did not return completely stay as they are${details && `: ${details}`}`,
		);
		error.contacts = contacts;
		return error;
	}
}
