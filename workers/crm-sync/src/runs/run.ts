import type { FastifyBaseLogger } from 'fastify';
import type { Clock } from '../clock.js';
import type { MapperOptions } from '../mapping.js';
import type { RunCounts, RunKind } from '../mirror/runs.sql.js';

/** What a run has done so far. It is recorded whether the run succeeds or fails. */
export interface RunRecord extends RunCounts {
	kind: RunKind;
	/** Whether a full run holds what it would have taken away. */
	isHeld: boolean;
	/** How many phones a full run has replaced by another number, and how many it has taken away. */
	phones?: { changed: number; removed: number };
}

/** The dependencies of every sync run. */
export interface RunContext extends MapperOptions {
	clock: Clock;
	logger: FastifyBaseLogger;
	/** The run's row in `crm_sync_runs`. */
	runId: number;
	/** Each run adds what it has done. */
	record: RunRecord;
	/** Called for contacts that the CRM did not return, or not completely: what is stored of them stays. */
	onUnread(run: RunKind, contacts: number): void;
}

/** Adds what a page has changed. */
export function addCounts(record: RunRecord, more: Partial<RunCounts>): void {
	for (const [name, count] of Object.entries(more)) record[name as keyof RunCounts] += count;
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

	/** @param counts what the run has done nevertheless */
	constructor(
		message: string,
		readonly counts: RunRecord,
	) {
		super(message);
	}

	/** @param examples of the unread contacts by their codes, as far as this process knows */
	static ofContacts(counts: RunRecord, examples: ReadonlyMap<string, number>): IncompleteRunError {
		const details = [...examples].map(([code, id]) => `${code} (contact ${id})`).join(', ');
		return new IncompleteRunError(
			`${counts.unread} contacts that the CRM did not return completely stay as they are${details && `: ${details}`}`,
			counts,
		);
	}
}
