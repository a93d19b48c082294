import { Bitrix24Error } from '../bitrix24/errors.js';
import { createMapper } from '../mapping.js';
import { saveProgress } from '../mirror/runs.sql.js';
import { saveContacts } from '../mirror/staging.sql.js';
import { finishIncremental } from '../mirror/state.sql.js';
import { addCounts, addExamples, IncompleteRunError, type RunContext } from './run.js';

/** How far a run looks back before the start of the last one: clocks differ, and contacts change during a run. */
const overlapMs = 600_000;

/**
 * Reads the contacts that changed since the last run, by the CRM's clock. It does not find deletions, or contacts of which
 * only the links changed: the full run finds them. If a contact is unread, the watermark stays, and the next run reads it
 * again.
 *
 * @param watermark milliseconds since the epoch
 * @throws Bitrix24Error, SessionLostError, IncompleteRunError
 */
export async function incrementalRun(context: RunContext, watermark: number): Promise<void> {
	const { crm, session, runId, record, onUnread } = context;
	const map = createMapper(context);
	const examples = new Map<string, number>();
	const changed = (after: number) => crm.page({ after, changedSince: watermark - overlapMs });
	let page = await changed(0);
	const { at: begun } = page;
	// By a later page's clock, the next run would miss what has changed since the first one.
	if (begun === undefined) throw new Bitrix24Error('stop', 'no_portal_clock', 'crm.item.list');
	for (; page.last !== undefined; page = await changed(page.last)) {
		const rows = await map(page);
		const saved = await session.run((sql) => saveContacts(sql, rows));
		addExamples(examples, page.unread);
		addCounts(record, { ...saved, seen: page.contacts.length, unread: page.unread.size });
		await session.run((sql) => saveProgress(sql, runId, record.seen, undefined));
	}
	if (record.unread > 0) {
		onUnread('incremental', record.unread);
		throw IncompleteRunError.ofContacts(record, examples);
	}
	await session.run((sql) => finishIncremental(sql, runId, begun));
}
