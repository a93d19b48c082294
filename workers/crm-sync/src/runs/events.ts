import { createMapper } from '../mapping.js';
import { finishEvents, postponeEvent, readInbox } from '../mirror/inbox.sql.js';
import { saveContacts } from '../mirror/staging.sql.js';
import { addCounts, type RunContext } from './run.js';

/** One request. */
const eventsAtOnce = 50;

/** The maximum number of requests in a row: some ten seconds, in which nothing else is done. */
const maxRequests = 20;

/**
 * Milliseconds before each new attempt for an event whose contact could not be read. After the last attempt, the next full
 * run handles it. Temporary errors of the CRM last seconds or minutes.
 */
const retryDelaysMs = [30_000, 120_000, 600_000, 3_600_000];

/**
 * Handles due events, oldest first, up to a thousand. Events are only hints: the contact's ID counts, and the contact is read again. While
 * the contact cannot be read, its event is kept and tried again later.
 */
export async function eventsRun(context: RunContext): Promise<void> {
	const { crm, session, record, clock, logger, onUnread } = context;
	const map = createMapper(context);

	for (let request = 0; request < maxRequests; request++) {
		const events = await session.run((sql) => readInbox(sql, eventsAtOnce, clock.now()));
		if (events.length === 0) break;
		const ids = events.map(({ bitrix_id }) => bitrix_id);
		for await (const found of crm.lookUp(ids, { waits: false })) {
			const { contacts, deleted, denied, unread } = found;
			const rows = await map(found);
			const saved = await session.run((sql) => saveContacts(sql, rows));
			const seen = contacts.length + deleted.length + denied.length + unread.size;
			addCounts(record, { ...saved, seen });

			for (const id of denied) logger.warn({ bitrix_id: id }, 'a contact may not be read any more');
			const handled = new Set([...contacts.map(({ id }) => id), ...deleted, ...denied]);
			for (const event of events) {
				const code = unread.get(event.bitrix_id);
				if (code === undefined) continue;
				const delay = retryDelaysMs[event.attempts];
				if (delay !== undefined) {
					await session.run((sql) => postponeEvent(sql, event, clock.now() + delay));
					continue;
				}
				handled.add(event.bitrix_id);
				onUnread('events', 1);
				logger.warn({ bitrix_id: event.bitrix_id, code }, 'a contact cannot be read: it is left to the next full run');
			}
			const done = events.filter(({ bitrix_id }) => handled.has(bitrix_id));
			await session.run((sql) => finishEvents(sql, done));
		}
	}
}
