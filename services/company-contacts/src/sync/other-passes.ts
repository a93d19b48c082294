import { saveCompanyContacts } from '../save-company-contacts.sql.js';
import { Bitrix24Error } from './bitrix24/errors.js';
import { clearInbox, type InboxRow, postponeEvent, readInbox } from './inbox.sql.js';
import {
	createMapper,
	describeUntold,
	IncompletePass,
	noCounts,
	type PassContext,
	type PassCounts,
	type Sorted,
	sortLookups,
} from './pass.js';
import { deleteContacts, saveContacts } from './staging.sql.js';
import { finishIncremental, saveBucket } from './sync.sql.js';

/** Milliseconds that an incremental pass looks back beyond the last one: clocks, and contacts saved while it ran. */
const overlap = 600_000;

/** The most events that are dealt with at once: one request. */
const eventsAtOnce = 50;

/**
 * Milliseconds until an event is tried again whose contact could not be read; after the last it is left to the next full pass.
 * The portal's bad moments last seconds or minutes.
 */
const retryPauses = [30_000, 120_000, 600_000, 3_600_000];

/**
 * Reads the contacts that were changed since the last pass, by the portal's clock. Contacts that nobody touched are not
 * written, and deletions and pure changes of links are not seen: those are for the full pass. Where the portal did not tell
 * contacts wholly, the watermark stays, and the next pass reads them again.
 *
 * @param watermark milliseconds since the epoch
 * @throws Bitrix24Error, SessionLost, IncompletePass
 */
export async function incrementalPass(context: PassContext, watermark: number): Promise<PassCounts> {
	const { portal, client, session, onProgress, onUnread } = context;
	const map = createMapper(context);
	const counts = noCounts();
	const untold = { contacts: 0, columns: new Set<string>() };
	let begun: number | undefined;
	for (let cursor = 0; ; ) {
		const { contacts, last, at } = await portal.page({ after: cursor, changedSince: watermark - overlap });
		begun ??= at;
		if (last === undefined) break;
		const mapped = await map(contacts);
		for (const { untold: columns } of mapped) {
			if (columns.length > 0) untold.contacts++;
			for (const column of columns) untold.columns.add(column);
		}
		const { created, changed } = await session.run((sql) => saveContacts(sql, mapped));
		cursor = last;
		counts.seen += contacts.length;
		counts.created += created;
		counts.changed += changed;
		onProgress(counts.seen, undefined);
	}
	if (begun === undefined) throw new Bitrix24Error('stop', 'no_portal_clock', 'crm.item.list');
	if (untold.contacts > 0) {
		onUnread('incremental', untold.contacts);
		throw new IncompletePass(describeUntold(untold.contacts, [...untold.columns]));
	}
	const until = begun;
	await session.run((sql) => finishIncremental(sql, until));
	await session.run((sql) => saveBucket(sql, client.arrival));
	return counts;
}

/** Reads single contacts again and does to the mirror what the portal says of them. */
export async function readAgain(context: PassContext, ids: number[]): Promise<PassCounts> {
	const { portal, logger } = context;
	const counts = noCounts();
	const apply = createApplier(context, counts);
	for await (const lookups of portal.lookUp(ids)) {
		const sorted = sortLookups(lookups);
		await apply(sorted);
		const unread = [...sorted.denied.map((id) => [id, 'ACCESS_DENIED'] as const), ...sorted.unknown];
		for (const [id, code] of unread) logger.warn({ bitrix_id: id, code }, 'a contact could not be read again');
	}
	return counts;
}

/**
 * Deals with the events that are due, oldest first; they are hints, so only the contact's ID counts. One whose contact could
 * not be read is kept and tried again later.
 */
export async function handleEvents(context: PassContext): Promise<PassCounts> {
	const { portal, session, clock, logger } = context;
	const counts = noCounts();
	const apply = createApplier(context, counts);
	for (;;) {
		const rows = await session.run((sql) => readInbox(sql, eventsAtOnce, clock.now()));
		if (rows.length === 0) return counts;
		const waiting = new Map(rows.map((row) => [row.bitrix_id, row]));
		for await (const lookups of portal.lookUp([...waiting.keys()])) {
			const sorted = sortLookups(lookups);
			await apply(sorted);
			const done = rows.filter(({ bitrix_id: id }) => lookups.has(id) && !sorted.unknown.has(id));
			await session.run((sql) => clearInbox(sql, done));
			for (const id of sorted.denied) logger.warn({ bitrix_id: id }, 'a contact may not be read any more');
			for (const [id, code] of sorted.unknown) await tryLater(context, waiting.get(id), code);
		}
	}
}

async function tryLater(context: PassContext, event: InboxRow | undefined, code: string): Promise<void> {
	if (event === undefined) return;
	const { session, clock, logger, onUnread } = context;
	const pause = retryPauses[event.attempts];
	if (pause !== undefined) return session.run((sql) => postponeEvent(sql, event, clock.now() + pause));
	await session.run((sql) => clearInbox(sql, [event]));
	onUnread('events', 1);
	logger.warn({ bitrix_id: event.bitrix_id, code }, 'a contact can not be read: it is left to the next full pass');
}

function createApplier(context: PassContext, counts: PassCounts) {
	const { session } = context;
	const map = createMapper(context);
	return async ({ found, deleted, denied, unknown }: Sorted): Promise<void> => {
		const contacts = await map(found);
		const { created, changed } = await session.run((sql) => saveContacts(sql, contacts));
		counts.deleted += await session.run((sql) => deleteContacts(sql, deleted));
		counts.seen += new Set([...found.map(({ id }) => id), ...deleted, ...denied, ...unknown.keys()]).size;
		counts.created += created;
		counts.changed += changed;
	};
}

/** What a full pass would change, without writing anything. */
export async function dryRun(context: PassContext): Promise<PassCounts> {
	const { portal, session, onProgress } = context;
	const map = createMapper(context);
	const counts = noCounts();
	const { total } = await portal.count();
	const seen = new Set<number>();
	for (let cursor = 0; ; ) {
		const { contacts, last } = await portal.page({ after: cursor });
		if (last === undefined) break;
		const mapped = await map(contacts);
		cursor = last;
		for (const { id } of contacts) seen.add(id);
		const { created, changed } = await session.run((sql) =>
			saveCompanyContacts(sql, mapped, { onlyWhole: true, dryRun: true }),
		);
		counts.created += created;
		counts.changed += changed;
		counts.seen = seen.size;
		onProgress(counts.seen, total);
	}
	const stored = await session.run(
		(sql) => sql<{ bitrix_id: number }[]>`select bitrix_id::float8 as bitrix_id from company_contacts`,
	);
	counts.deleted = stored.filter((row) => !seen.has(row.bitrix_id)).length;
	return counts;
}
