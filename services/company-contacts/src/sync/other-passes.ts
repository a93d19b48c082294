import { Bitrix24Error } from './bitrix24/errors.js';
import { createMapper, noCounts, type PassContext, type PassCounts, sortLookups } from './pass.js';
import { clearInbox, deleteContacts, finishIncremental, readInbox, saveBucket, saveContacts } from './sync.sql.js';

/** Milliseconds that an incremental pass looks back beyond the last one: clocks, and contacts saved while it ran. */
const overlap = 600_000;

/** The most events that are dealt with at once: one request. */
const eventsAtOnce = 50;

/**
 * Reads the contacts that were changed since the last pass, by the portal's clock. Contacts that nobody touched are not
 * written, and deletions and pure changes of links are not seen: those are for the full pass.
 *
 * @param watermark milliseconds since the epoch
 * @throws Bitrix24Error, SessionLost
 */
export async function incrementalPass(context: PassContext, watermark: number): Promise<PassCounts> {
	const { portal, client, session, onProgress } = context;
	const map = createMapper(context);
	const counts = noCounts();
	let begun: number | undefined;
	for (let cursor = 0; ; ) {
		const { contacts, at } = await portal.page({ after: cursor, changedSince: watermark - overlap });
		begun ??= at;
		const last = contacts.at(-1);
		if (last === undefined) break;
		const mapped = await map(contacts);
		const { created, changed } = await session.run((sql) => saveContacts(sql, mapped));
		cursor = last.id;
		counts.seen += contacts.length;
		counts.created += created;
		counts.changed += changed;
		onProgress(counts.seen, undefined);
	}
	if (begun === undefined) throw new Bitrix24Error('stop', 'no_portal_clock', 'crm.item.list');
	const until = begun;
	await session.run((sql) => finishIncremental(sql, until));
	await session.run((sql) => saveBucket(sql, client.arrival));
	return counts;
}

/** Reads single contacts again and does to the mirror what the portal says of them. */
export async function readAgain(context: PassContext, ids: number[]): Promise<PassCounts> {
	const { portal, session, logger } = context;
	const { found, deleted, unknown } = sortLookups(await portal.lookUp(ids));
	const contacts = await createMapper(context)(found);
	const { created, changed } = await session.run((sql) => saveContacts(sql, contacts));
	const gone = await session.run((sql) => deleteContacts(sql, deleted));
	for (const [bitrixId, code] of unknown)
		logger.warn({ bitrix_id: bitrixId, code }, 'a contact could not be read again');
	return { seen: ids.length, created, changed, deleted: gone };
}

/** Deals with the events that wait, oldest first; they are hints, so only the contact's ID counts. */
export async function handleEvents(context: PassContext): Promise<PassCounts> {
	const { session } = context;
	const counts = noCounts();
	for (;;) {
		const rows = await session.run((sql) => readInbox(sql, eventsAtOnce));
		if (rows.length === 0) return counts;
		const result = await readAgain(
			context,
			rows.map((row) => row.bitrix_id),
		);
		await session.run((sql) => clearInbox(sql, rows));
		for (const name of Object.keys(counts) as (keyof PassCounts)[]) counts[name] += result[name];
	}
}

/** What a full pass would change, without writing anything. */
export async function dryRun(context: PassContext): Promise<PassCounts> {
	const { portal, session, onProgress } = context;
	const map = createMapper(context);
	const counts = noCounts();
	const { total } = await portal.count();
	const seen = new Set<number>();
	for (let cursor = 0; ; ) {
		const { contacts } = await portal.page({ after: cursor });
		const last = contacts.at(-1);
		if (last === undefined) break;
		const mapped = JSON.stringify(await map(contacts));
		cursor = last.id;
		for (const { id } of contacts) seen.add(id);
		const [row] = await session.run(
			(sql) => sql<[{ created: number; changed: number }]>`
				select count(*) filter (where stored.bitrix_id is null)::int as created,
				       count(*) filter (where stored.bitrix_id is not null and
				         (g.phone, case when g.has_company_ids then g.company_ids else stored.company_ids end, g.name,
				          g.assigned_by_id, g.trouble_contact, g.perplexity_reason) is distinct from
				         (stored.phone, stored.company_ids, stored.name, stored.assigned_by_id, stored.trouble_contact,
				          stored.perplexity_reason))::int as changed
				from json_populate_recordset(null::crm_sync_staging, ${mapped}::text::json) g
				left join company_contacts stored using (bitrix_id)`,
		);
		counts.created += row.created;
		counts.changed += row.changed;
		counts.seen = seen.size;
		onProgress(counts.seen, total);
	}
	const stored = await session.run(
		(sql) => sql<{ bitrix_id: number }[]>`select bitrix_id::float8 as bitrix_id from company_contacts`,
	);
	counts.deleted = stored.filter((row) => !seen.has(row.bitrix_id)).length;
	return counts;
}
