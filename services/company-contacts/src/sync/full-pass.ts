import { handleEvents } from './other-passes.js';
import {
	createMapper,
	describeUntold,
	IncompletePass,
	noCounts,
	type PassContext,
	type PassCounts,
	sortLookups,
} from './pass.js';
import {
	countLookedUp,
	countStaging,
	finishFull,
	readMissing,
	readUntold,
	stageMissing,
	stagePage,
} from './staging.sql.js';
import { beginFull, confirmFull, discardFull, readState, saveAlarm, saveBucket } from './sync.sql.js';

/** An unfinished pass that is older is begun from the start, in milliseconds. */
const oldestUnfinished = 24 * 3_600_000;

/** A pass that brings less of what the portal counts is not believed. */
const smallestShare = 0.98;

/** So many contacts may be missing without somebody having a look; of a large mirror, this share. */
const fewMissing = 20;
const shareMissing = 0.02;

/**
 * Reads every contact of the portal into a staging table and then makes all of it visible in one transaction: readers never
 * see half of a pass, and a crash leaves the mirror as it was. The cursor is saved with each page; the next pass goes on
 * from there.
 *
 * What is in the mirror and was not among the contacts is asked for one by one, and deleted only where the portal says that
 * it is gone. What it says is staged as well: a hold or a restart in between costs no look-up twice, and readers see the
 * deletions together with everything else. A contact that is restored after its look-up comes back by its event, or by the
 * next full pass. When much is missing, as when the webhook's user has lost its rights, nothing is
 * deleted and an alarm is raised until somebody confirms.
 *
 * Where the portal did not tell contacts wholly, what it told is made visible, nothing is deleted, and the pass has failed.
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
	counts.seen = (await session.run(countStaging)).staged;
	// A restored backup has the cursor, but not what was staged up to it.
	const isEmptied = cursor > 0 && counts.seen === 0;
	if (begun === null || clock.now() - begun > oldestUnfinished || isEmptied) {
		await session.run((sql) => beginFull(sql, at));
		cursor = 0;
		counts.seen = 0;
	} else {
		logger.info({ cursor }, 'going on with the full pass that was interrupted');
	}
	if (confirmMassDelete) await session.run(confirmFull);
	const { full_confirmed: confirmed } = await session.run(readState);

	for (;;) {
		const { contacts, last } = await portal.page({ after: cursor });
		// A short page is not the end: a contact may have been deleted while the page was made.
		if (last === undefined) break;
		const staged = await map(contacts);
		cursor = last;
		await session.run((sql) => stagePage(sql, staged, cursor, client.arrival));
		counts.seen += staged.length;
		onProgress(counts.seen, total);
		// A long pass keeps nobody waiting who was told of a change.
		await handleEvents(context);
	}

	const { staged, live, missing } = await session.run(countStaging);
	if (total !== undefined && staged < total * smallestShare) {
		// Its cursor is at the end: going on from there would find the same for ever.
		await session.run(discardFull);
		throw new IncompletePass(`the portal counts ${total} contacts and has listed ${staged}`);
	}
	const suspicious = (staged === 0 && live > 0) || missing > Math.max(fewMissing, live * shareMissing);
	const withheld = suspicious && !confirmed;
	if (withheld) {
		const alarm = `mass_delete: ${missing} of ${live} contacts are missing in the CRM; nothing was deleted. If that is right, run "contacts sync --once --full --confirm-mass-delete".`;
		logger.error(
			{ missing, live },
			'too many contacts are missing in the CRM: nothing is deleted until somebody confirms',
		);
		await session.run((sql) => saveAlarm(sql, alarm));
	} else {
		await lookUpMissing(context, map);
	}
	const untold = await session.run(readUntold);
	const complete = untold.contacts === 0;
	const result = await session.run((sql) => finishFull(sql, { complete, deletions: !withheld }));
	await session.run((sql) => saveBucket(sql, client.arrival));
	if (!complete) {
		context.onUnread('full', untold.contacts);
		throw new IncompletePass(describeUntold(untold.contacts, untold.columns));
	}
	return { ...counts, ...result };
}

/** Asks the portal for each contact that is missing, and stages what it says. One that is unclear stays, with an alarm. */
async function lookUpMissing(context: PassContext, map: ReturnType<typeof createMapper>): Promise<void> {
	const { portal, client, session, logger, onUnread } = context;
	for await (const lookups of portal.lookUp(await session.run(readMissing))) {
		const { found, deleted, denied, unknown } = sortLookups(lookups);
		const staged = await map(found);
		await session.run((sql) => stagePage(sql, staged, 0, client.arrival));
		const missing = new Map([
			...unknown,
			...denied.map((id) => [id, 'ACCESS_DENIED'] as const),
			...deleted.map((id) => [id, 'deleted'] as const),
		]);
		await session.run((sql) => stageMissing(sql, missing));
		await handleEvents(context);
	}
	const kept = await session.run(countLookedUp);
	kept.delete('deleted');
	const hidden = kept.get('ACCESS_DENIED') ?? 0;
	const unread = [...kept.values()].reduce((sum, count) => sum + count, 0) - hidden;
	if (kept.size > 0) logger.warn({ kept: Object.fromEntries(kept) }, 'contacts that can not be read are kept');
	onUnread('full', unread);
	const alarms = [
		...(hidden > 0 ? [`access_denied: ${hidden} contacts can't be read any more; they are kept as they were.`] : []),
		...(unread > 0 ? [`unread: ${unread} contacts could not be looked up; they are kept as they were.`] : []),
	];
	await session.run((sql) => saveAlarm(sql, alarms.join(' ') || null));
}
