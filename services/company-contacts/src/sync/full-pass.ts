import { handleEvents } from './other-passes.js';
import { createMapper, noCounts, type PassContext, type PassCounts, sortLookups } from './pass.js';
import {
	beginFull,
	countStaging,
	finishFull,
	readMissing,
	readState,
	saveAlarm,
	saveBucket,
	stagePage,
} from './sync.sql.js';

/** An unfinished pass that is older is begun anew, in milliseconds. */
const oldestUnfinished = 24 * 3_600_000;

/** A pass that brings less of what the portal counts is not believed. */
const smallestShare = 0.98;

/** So many contacts may be missing without somebody having a look; of a large mirror, this share. */
const fewMissing = 20;
const shareMissing = 0.02;

/** The pass brought too little to be believed: nothing was changed. */
export class IncompletePass extends Error {
	override name = 'IncompletePass';
}

/**
 * Reads every contact of the portal into a staging table and then makes all of it visible in one transaction: readers never
 * see half of a pass, and a crash leaves the mirror as it was. The cursor is saved with each page; the next pass goes on
 * from there.
 *
 * What is in the mirror and was not among the contacts is asked for one by one, and deleted only where the portal says that
 * it is gone. When much is missing, as when the webhook's user has lost its rights, nothing is deleted and an alarm is
 * raised until somebody confirms.
 *
 * @throws Bitrix24Error, SessionLost, IncompletePass
 */
export async function fullPass(context: PassContext, confirmMassDelete: boolean): Promise<PassCounts> {
	const { portal, client, session, clock, logger, onProgress } = context;
	const map = createMapper(context);
	const counts = noCounts();

	const { total, at } = await portal.count();
	const state = await session.run(readState);
	const begun = state.full_begun_at;
	let cursor = state.full_cursor ?? 0;
	if (begun === null || clock.now() - begun > oldestUnfinished) {
		await session.run((sql) => beginFull(sql, at));
		cursor = 0;
	} else {
		logger.info({ cursor }, 'going on with the full pass that was interrupted');
	}
	counts.seen = (await session.run(countStaging)).staged;

	for (;;) {
		const { contacts } = await portal.page({ after: cursor });
		const last = contacts.at(-1);
		// A short page is not the end: a contact may have been deleted while the page was made.
		if (last === undefined) break;
		const staged = await map(contacts);
		cursor = last.id;
		await session.run((sql) => stagePage(sql, staged, cursor, client.arrival));
		counts.seen += staged.length;
		onProgress(counts.seen, total);
		// A long pass keeps nobody waiting who was told of a change.
		await handleEvents(context);
	}

	const { staged, live, missing } = await session.run(countStaging);
	if (total !== undefined && staged < total * smallestShare) {
		throw new IncompletePass(`the portal counts ${total} contacts and has listed ${staged}`);
	}
	let deleted: number[] = [];
	const suspicious = (staged === 0 && live > 0) || missing > Math.max(fewMissing, live * shareMissing);
	if (suspicious && !confirmMassDelete) {
		const alarm = `mass_delete: ${missing} of ${live} contacts are missing in the CRM; nothing was deleted. If that is right, run "contacts sync --once --full --confirm-mass-delete".`;
		logger.error(
			{ missing, live },
			'too many contacts are missing in the CRM: nothing is deleted until somebody confirms',
		);
		await session.run((sql) => saveAlarm(sql, alarm));
	} else {
		deleted = await confirmDeletions(context, map);
	}
	const result = await session.run((sql) => finishFull(sql, deleted));
	await session.run((sql) => saveBucket(sql, client.arrival));
	return { ...counts, ...result };
}

/** Asks the portal for each contact that is missing. One that is found after all is staged; one that is unclear stays. */
async function confirmDeletions(context: PassContext, map: ReturnType<typeof createMapper>): Promise<number[]> {
	const { portal, client, session, logger } = context;
	const missing = await session.run(readMissing);
	const { found, deleted, unknown } = sortLookups(await portal.lookUp(missing));
	const last = found.at(-1);
	if (last !== undefined) {
		const staged = await map(found);
		await session.run((sql) => stagePage(sql, staged, 0, client.arrival));
	}
	const hidden = [...unknown.values()].filter((code) => code === 'ACCESS_DENIED').length;
	if (unknown.size > 0)
		logger.warn({ unknown: unknown.size, hidden }, 'contacts that can not be read any more are kept');
	const alarm =
		hidden > 0 ? `access_denied: ${hidden} contacts can't be read any more; they are kept as they were.` : null;
	await session.run((sql) => saveAlarm(sql, alarm));
	return deleted;
}
