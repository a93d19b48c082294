import type { LookUps } from './bitrix24/crm.js';
import { type EventOutcome, finishEvents, type InboxRow, postponeEvent, readInbox } from './inbox.sql.js';
import { createMapper } from './mapping.js';
import type { Counts, RunContext } from './run.js';
import { saveContacts } from './staging.sql.js';

/** One request. */
const eventsAtOnce = 50;

/**
 * Milliseconds before each new attempt for an event whose contact could not be read. After the last attempt, the next full
 * run handles it. Temporary errors of the CRM last seconds or minutes.
 */
const retryDelaysMs = [30_000, 120_000, 600_000, 3_600_000];

/**
 * Handles the due events, oldest first. Events are only hints: the contact's ID counts, and the contact is read again. While
 * the contact cannot be read, its event is kept and tried again later. If a command waits for the outcome, it gets it at once.
 */
export async function eventsRun(context: RunContext): Promise<Counts> {
	const { crm, session, clock, logger, onUnread } = context;
	const map = createMapper(context);
	const counts: Counts = { seen: 0, created: 0, changed: 0, deleted: 0 };

	/** Applies look-ups to the mirror. @returns the outcome for each contact */
	async function apply({ found, deleted, denied, unclear }: LookUps): Promise<Map<number, EventOutcome>> {
		const changes = { contacts: await map(found), deleted, unread: [...unclear.keys()] };
		const saved = await session.run((sql) => saveContacts(sql, changes));
		const outcomes = new Map<number, EventOutcome>([
			...changes.contacts.map(({ bitrix_id }) => [bitrix_id, 'saved'] as const),
			...deleted.map((id) => [id, saved.deleted.includes(id) ? 'deleted' : 'unknown'] as const),
			...denied.map((id) => [id, 'denied'] as const),
			...changes.unread.map((id) => [id, 'unread'] as const),
		]);
		counts.seen += outcomes.size;
		counts.created += saved.created;
		counts.changed += saved.changed;
		counts.deleted += saved.deleted.length;
		return outcomes;
	}

	for (;;) {
		const rows = await session.run((sql) => readInbox(sql, eventsAtOnce, clock.now()));
		if (rows.length === 0) return counts;
		const events = new Map(rows.map((row) => [row.bitrix_id, row]));
		for await (const lookUps of crm.lookUp([...events.keys()], { waits: false })) {
			const done: (InboxRow & { outcome: EventOutcome })[] = [];
			for (const [id, outcome] of await apply(lookUps)) {
				const event = events.get(id);
				if (event === undefined) continue;
				if (outcome === 'denied') logger.warn({ bitrix_id: id }, 'a contact may not be read any more');
				const delay = outcome === 'unread' && !event.requested ? retryDelaysMs[event.attempts] : undefined;
				if (delay !== undefined) {
					await session.run((sql) => postponeEvent(sql, event, clock.now() + delay));
					continue;
				}
				done.push({ ...event, outcome });
				if (outcome !== 'unread') continue;
				onUnread('events', 1);
				const code = lookUps.unclear.get(id);
				logger.warn({ bitrix_id: id, code }, 'a contact cannot be read: it is left to the next full run');
			}
			await session.run((sql) => finishEvents(sql, done));
		}
	}
}
