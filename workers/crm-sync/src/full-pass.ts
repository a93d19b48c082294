import { saveCompanyContacts } from '@contacts/common/company-contacts/save-company-contacts.sql.js';
import { Bitrix24Error } from './bitrix24/errors.js';
import { eventsPass } from './events-pass.js';
import { createMapper } from './mapping.js';
import { IncompletePassError, type PassContext, type PassCounts } from './pass.js';
import {
	countLookedUp,
	countStaging,
	finishFull,
	readIncomplete,
	readMirroredIds,
	readMissing,
	stageMissing,
	stagePage,
} from './staging.sql.js';
import { beginFull, confirmFull, discardFull, heldBackPrefix, readState } from './sync.sql.js';

/** An unfinished pass that is older than this starts over. */
const maxUnfinishedAgeMs = 24 * 3_600_000;

/** A pass is incomplete if it lists a smaller share of the contacts that the portal counts. */
const minListedShare = 0.98;

/** Maximum number of deletions without a confirmation; in a large mirror, this share of it. */
const maxMissing = 20;
const maxMissingShare = 0.02;

/**
 * The contacts that the portal has counted and listed, and that do not belong into the mirror. It is not stored: if a pass is
 * resumed after a restart, they may be too few once. The pass then starts over, and counts all of them.
 */
export interface Tally {
	leftOut: number;
}

/**
 * Reads every contact of the portal into a staging table. Then one transaction makes them all visible. Readers never see half
 * of a pass, and a crash leaves the mirror as it was. The cursor is saved with each page, and the next pass continues from
 * there.
 *
 * A contact of the mirror that was not listed is looked up. It is deleted only if the portal says that it does not exist. The
 * results are staged too: after a rate-limit pause or a restart nothing is looked up twice, and readers see the deletions
 * together with everything else. A contact that is restored after its look-up comes back with its event or with the next full
 * pass. If many contacts are missing, nothing is deleted, and an alarm is raised until somebody confirms the deletions. This
 * happens, for example, when the webhook's user has lost its rights.
 *
 * If the portal returns incomplete contacts, the other contacts become visible, nothing is deleted, and the pass fails.
 *
 * @throws Bitrix24Error, SessionLostError, IncompletePassError
 */
export async function fullPass(context: PassContext, confirmMassDelete: boolean, tally: Tally): Promise<PassCounts> {
	const { portal, session, clock, logger, onProgress } = context;
	const map = createMapper(context);
	const readEvents = readEventsMeanwhile(context);
	const counts: PassCounts = { seen: 0, created: 0, changed: 0, deleted: 0 };

	const { total, at } = await portal.count();
	const state = await session.run(readState);
	const { full_begun_at: begun } = state;
	let cursor = state.full_cursor ?? 0;
	let confirmed = state.full_confirmed || confirmMassDelete;
	counts.seen = (await session.run(countStaging)).staged;
	// A restored backup contains the cursor, but not the staged contacts before it.
	const isEmptied = cursor > 0 && counts.seen === 0;
	if (begun === null || Math.abs(clock.now() - begun) > maxUnfinishedAgeMs || isEmptied) {
		await session.run((sql) => beginFull(sql, at));
		cursor = 0;
		counts.seen = 0;
		tally.leftOut = 0;
		confirmed = confirmMassDelete;
	} else {
		logger.info({ cursor }, 'continuing the full pass that was interrupted');
	}
	if (confirmMassDelete) await session.run(confirmFull);

	for (;;) {
		const { contacts, unclear, leftOut, last } = await portal.page({ after: cursor });
		// A short page is not the end: a contact may have been deleted while the portal built the page.
		if (last === undefined) break;
		const staged = [...(await map(contacts)), ...[...unclear.keys()].map((bitrix_id) => ({ bitrix_id }))];
		cursor = last;
		tally.leftOut += leftOut;
		const stagedPage = { contacts: staged, cursor, now: clock.now() };
		const { eventsDue } = await session.run((sql) => stagePage(sql, stagedPage));
		counts.seen += staged.length;
		onProgress(counts.seen, total);
		if (eventsDue) await readEvents();
	}

	const { staged, live, missing } = await session.run(countStaging);
	// Some portals ignore the filter by category, in the pages and in the count.
	const listed = staged + tally.leftOut;
	if (total !== undefined && listed < total * minListedShare) {
		// The cursor is at the end: continuing from there would give the same result for ever.
		await session.run(discardFull);
		throw new IncompletePassError(`the portal counts ${total} contacts and has listed ${listed}`);
	}
	const isMassDelete = (staged === 0 && live > 0) || missing > Math.max(maxMissing, live * maxMissingShare);
	const mayDelete = !isMassDelete || confirmed;
	let alarm: string | null;
	if (!mayDelete) {
		alarm = `${heldBackPrefix}${missing} of ${live} contacts are missing in the CRM; nothing was deleted. If that is right, run "contacts sync --once --full --confirm-mass-delete".`;
		logger.error(
			{ missing, live },
			'too many contacts are missing in the CRM: nothing is deleted until somebody confirms',
		);
	} else {
		alarm = await lookUpMissing(context, map, readEvents);
	}
	const incomplete = await session.run(readIncomplete);
	const complete = incomplete.contacts === 0;
	// An incomplete pass deletes nothing: what was held back before still is.
	if (!complete && mayDelete && state.alarm?.startsWith(heldBackPrefix)) alarm = state.alarm;
	const result = await session.run((sql) => finishFull(sql, { complete, mayDelete, alarm }));
	if (!complete) {
		context.onUnread('full', incomplete.contacts);
		throw IncompletePassError.ofContacts(incomplete.columns);
	}
	return { ...counts, ...result };
}

/**
 * Events do not wait for the end of a long pass. The pass does not wait for the end of their method's pause, and goes on without
 * them after an error of the portal: the loop tries again.
 */
function readEventsMeanwhile(context: PassContext): () => Promise<void> {
	let hasFailed = false;
	return async () => {
		if (hasFailed) return;
		try {
			await eventsPass(context);
		} catch (error) {
			if (!(error instanceof Bitrix24Error) || error.kind === 'stop') throw error;
			hasFailed = error.kind !== 'pause';
		}
	};
}

/**
 * Looks up each missing contact and stages the result. A contact that cannot be read stays.
 *
 * @returns the alarm about these contacts; null if there are none
 */
async function lookUpMissing(
	context: PassContext,
	map: ReturnType<typeof createMapper>,
	readEvents: () => Promise<void>,
): Promise<string | null> {
	const { portal, session, clock, logger, onUnread } = context;
	for await (const { found, deleted, denied, unclear } of portal.lookUp(await session.run(readMissing))) {
		const page = { contacts: await map(found), cursor: 0, now: clock.now() };
		const { eventsDue } = await session.run((sql) => stagePage(sql, page));
		const missing = new Map([
			// The portal chooses these codes. None of them may delete the contact.
			...[...unclear].map(([id, code]) => [id, code === 'deleted' ? 'unknown_code' : code] as const),
			...denied.map((id) => [id, 'ACCESS_DENIED'] as const),
			...deleted.map((id) => [id, 'deleted'] as const),
		]);
		await session.run((sql) => stageMissing(sql, missing));
		if (eventsDue) await readEvents();
	}
	const kept = await session.run(countLookedUp);
	kept.delete('deleted');
	const denied = kept.get('ACCESS_DENIED') ?? 0;
	const unread = [...kept.values()].reduce((sum, count) => sum + count, 0) - denied;
	if (kept.size > 0) logger.warn({ kept: Object.fromEntries(kept) }, 'contacts that cannot be read are kept');
	onUnread('full', unread);
	const alarms = [
		...(denied > 0 ? [`access_denied: ${denied} contacts can't be read any more; they are kept as they were.`] : []),
		...(unread > 0 ? [`unread: ${unread} contacts could not be looked up; they are kept as they were.`] : []),
	];
	return alarms.join(' ') || null;
}

/**
 * Counts what a full pass would change. It writes nothing.
 *
 * @returns a function that counts. Called again after a rate-limit pause, it continues from its cursor.
 */
export function dryRun(): (context: PassContext) => Promise<PassCounts> {
	const counts: PassCounts = { seen: 0, created: 0, changed: 0, deleted: 0 };
	const seen = new Set<number>();
	let cursor = 0;
	return async (context) => {
		const { portal, session, onProgress } = context;
		const map = createMapper(context);
		const { total } = await portal.count();
		for (;;) {
			const { contacts, last } = await portal.page({ after: cursor });
			if (last === undefined) break;
			const mapped = await map(contacts);
			cursor = last;
			for (const { id } of contacts) seen.add(id);
			const saving = { onlyWhole: true, dryRun: true };
			const { created, changed } = await session.run((sql) => saveCompanyContacts(sql, mapped, saving));
			counts.created += created;
			counts.changed += changed;
			counts.seen = seen.size;
			onProgress(counts.seen, total);
		}
		counts.deleted = (await session.run(readMirroredIds)).filter((id) => !seen.has(id)).length;
		return counts;
	};
}
