import type { LookUps } from './bitrix24/portal.js';
import { clearInbox, type InboxRow, postponeEvent, readInbox } from './inbox.sql.js';
import { createMapper } from './mapping.js';
import { IncompletePassError, type PassContext, type PassCounts } from './pass.js';
import { deleteContacts, saveContacts } from './staging.sql.js';

/** One request. */
const eventsAtOnce = 50;

/**
 * Milliseconds before each new attempt for an event whose contact could not be read. After the last attempt, the next full
 * pass handles it. Temporary errors of the portal last seconds or minutes.
 */
const retryDelaysMs = [30_000, 120_000, 600_000, 3_600_000];

/**
 * Handles the due events, oldest first. Events are only hints: the contact's ID counts, and the contact is read again. While
 * the contact cannot be read, its event is kept and tried again later.
 */
export async function eventsPass(context: PassContext): Promise<PassCounts> {
	const { portal, session, clock, logger } = context;
	const counts: PassCounts = { seen: 0, created: 0, changed: 0, deleted: 0 };
	const apply = createApplier(context, counts);
	for (;;) {
		const rows = await session.run((sql) => readInbox(sql, eventsAtOnce, clock.now()));
		if (rows.length === 0) return counts;
		const events = new Map(rows.map((row) => [row.bitrix_id, row]));
		for await (const lookUps of portal.lookUp([...events.keys()])) {
			await apply(lookUps);
			const { denied, unclear } = lookUps;
			const done = idsOf(lookUps).filter((id) => !unclear.has(id));
			await session.run((sql) =>
				clearInbox(
					sql,
					done.flatMap((id) => events.get(id) ?? []),
				),
			);
			for (const id of denied) logger.warn({ bitrix_id: id }, 'a contact may not be read any more');
			for (const [id, code] of unclear) await retryLater(context, events.get(id), code);
		}
	}
}

/**
 * Reads one contact again and applies the result to the mirror.
 *
 * @throws IncompletePassError if it could not be read
 */
export async function contactPass(context: PassContext, contactId: number): Promise<PassCounts> {
	const counts: PassCounts = { seen: 0, created: 0, changed: 0, deleted: 0 };
	const apply = createApplier(context, counts);
	for await (const lookUps of context.portal.lookUp([contactId])) {
		await apply(lookUps);
		const unread = [...lookUps.denied.map((id) => [id, 'ACCESS_DENIED'] as const), ...lookUps.unclear];
		for (const [id, code] of unread) throw new IncompletePassError(`contact ${id} could not be read (${code})`);
	}
	return counts;
}

async function retryLater(context: PassContext, event: InboxRow | undefined, code: string): Promise<void> {
	if (event === undefined) return;
	const { session, clock, logger, onUnread } = context;
	const delay = retryDelaysMs[event.attempts];
	if (delay !== undefined) return session.run((sql) => postponeEvent(sql, event, clock.now() + delay));
	await session.run((sql) => clearInbox(sql, [event]));
	onUnread('events', 1);
	logger.warn({ bitrix_id: event.bitrix_id, code }, 'a contact cannot be read: it is left to the next full pass');
}

function createApplier(context: PassContext, counts: PassCounts) {
	const { session } = context;
	const map = createMapper(context);
	return async (lookUps: LookUps): Promise<void> => {
		// Without columns: of a contact that can't be read, only a deletion that is staged is taken back.
		const unclear = [...lookUps.unclear.keys()].map((bitrix_id) => ({ bitrix_id }));
		const contacts = [...(await map(lookUps.found)), ...unclear];
		const { created, changed } = await session.run((sql) => saveContacts(sql, contacts));
		counts.deleted += await session.run((sql) => deleteContacts(sql, lookUps.deleted));
		counts.seen += idsOf(lookUps).length;
		counts.created += created;
		counts.changed += changed;
	};
}

function idsOf({ found, deleted, denied, unclear }: LookUps): number[] {
	return [...new Set([...found.map(({ id }) => id), ...deleted, ...denied, ...unclear.keys()])];
}
