import { Bitrix24Error } from './bitrix24/errors.js';
import { createMapper } from './mapping.js';
import { countCodes, IncompletePassError, type PassContext, type PassCounts } from './pass.js';
import { saveContacts } from './staging.sql.js';
import { finishIncremental } from './sync.sql.js';

/** How far a pass looks back before the start of the last one: clocks differ, and contacts change while a pass runs. */
const overlapMs = 600_000;

/**
 * Reads the contacts that changed since the last pass, by the portal's clock. It does not find deletions, or contacts of which
 * only the links changed: the full pass finds them. If the portal returns incomplete contacts, the watermark stays, and the
 * next pass reads them again.
 *
 * @param watermark milliseconds since the epoch
 * @returns a function that runs the pass. Called again after a rate-limit pause, it continues the pass from its cursor.
 * @throws Bitrix24Error, SessionLostError, IncompletePassError
 */
export function incrementalPass(watermark: number): (context: PassContext) => Promise<PassCounts> {
	const counts: PassCounts = { seen: 0, created: 0, changed: 0, deleted: 0 };
	const codes = new Map<string, number>();
	let incomplete = 0;
	let cursor = 0;
	let begun: number | undefined;
	return async (context) => {
		const { portal, session, onProgress, onUnread } = context;
		const map = createMapper(context);
		for (;;) {
			const page = await portal.page({ after: cursor, changedSince: watermark - overlapMs });
			begun ??= page.at;
			if (page.last === undefined) break;
			const contacts = await map(page.contacts);
			const changes = { contacts, deleted: [], unread: [...page.unclear.keys()] };
			const { created, changed } = await session.run((sql) => saveContacts(sql, changes));
			cursor = page.last;
			incomplete += page.unclear.size;
			countCodes(codes, page.unclear.values());
			counts.seen += contacts.length;
			counts.created += created;
			counts.changed += changed;
			onProgress(counts.seen, undefined);
		}
		if (begun === undefined) throw new Bitrix24Error('stop', 'no_portal_clock', 'crm.item.list');
		if (incomplete > 0) {
			onUnread('incremental', incomplete);
			throw IncompletePassError.ofContacts(incomplete, codes);
		}
		const until = begun;
		await session.run((sql) => finishIncremental(sql, until));
		return counts;
	};
}
