import { Bitrix24Error } from './bitrix24/errors.js';
import { eventsPass } from './events-pass.js';
import { createMapper } from './mapping.js';
import { countCodes, IncompletePassError, type PassContext, type PassCounts } from './pass.js';
import { allContacts } from './session.js';
import { countStaging, finishFull, readMissing, stagePage, type Unlisted } from './staging.sql.js';
import { beginFull, discardFull, readState, takeConfirmation } from './sync.sql.js';

/** An unfinished pass that is older than this starts over. */
const maxUnfinishedAgeMs = 24 * 3_600_000;

/** A pass is incomplete if it lists a smaller share of the contacts that the portal counts. */
const minListedShare = 0.98;

/** Maximum number of deletions without a confirmation; in a large mirror, this share of it. */
const maxMissing = 20;
const maxMissingShare = 0.02;

/**
 * Reads every contact of the portal into a staging table. Then one statement makes them all visible. Readers never see half of
 * a pass, and a crash leaves the mirror as it was. The cursor is saved with each page, and the next pass continues from there.
 *
 * A contact of the mirror that was not listed is looked up. It is deleted only if the portal says that it does not exist. The
 * results are staged too: after a rate-limit pause or a restart nothing is looked up twice, and readers see the deletions
 * together with everything else. A contact that is restored after its look-up comes back with its event or with the next full
 * pass. If many contacts are missing, the deletions are put on hold until somebody confirms that many. This happens, for
 * example, when the webhook's user has lost its rights.
 *
 * If the portal returns incomplete contacts, the other contacts become visible, nothing is deleted, and the pass fails.
 *
 * @throws Bitrix24Error, SessionLostError, IncompletePassError
 */
export async function fullPass(context: PassContext): Promise<PassCounts> {
	const { portal, session, clock, logger, onProgress, onUnread } = context;
	const map = createMapper(context);
	const readEvents = readEventsMeanwhile(context);
	const codes = new Map<string, number>();

	const { total, at } = await portal.count();
	const { full_begun_at: begun, full_cursor: savedCursor } = await session.run(readState);
	let cursor = 0;
	let seen = 0;
	if (begun === null || Math.abs(clock.now() - begun) > maxUnfinishedAgeMs) {
		await session.run((sql) => beginFull(sql, at), allContacts);
	} else {
		cursor = savedCursor ?? 0;
		seen = (await session.run(countStaging, allContacts)).staged;
		logger.info({ cursor }, 'continuing the full pass that was interrupted');
	}
	await session.run(takeConfirmation);

	async function stage(found: Parameters<typeof map>[0], others: Map<number, Unlisted>, leftOut = 0): Promise<void> {
		const page = { contacts: await map(found), others, leftOut, cursor, now: clock.now() };
		if (await session.run((sql) => stagePage(sql, page))) await readEvents();
	}

	for (;;) {
		const { contacts, unclear, leftOut, last } = await portal.page({ after: cursor });
		// A short page is not the end: a contact may have been deleted while the portal built the page.
		if (last === undefined) break;
		cursor = last;
		countCodes(codes, unclear.values());
		await stage(contacts, new Map([...unclear.keys()].map((id) => [id, 'incomplete'])), leftOut);
		seen += contacts.length + unclear.size;
		onProgress(seen, total);
	}

	const listed = await session.run(countStaging, allContacts);
	const { full_left_out: leftOut, full_confirmed: confirmed } = await session.run(readState);
	// Some portals ignore the filter by category, in the pages and in the count.
	if (total !== undefined && listed.staged + leftOut < total * minListedShare) {
		// The cursor is at the end: continuing from there would give the same result for ever.
		await session.run(discardFull, allContacts);
		throw new IncompletePassError(`the portal counts ${total} contacts and has listed ${listed.staged + leftOut}`);
	}
	const { live, missing } = listed;
	const isMassDelete = (listed.staged === 0 && live > 0) || missing > Math.max(maxMissing, live * maxMissingShare);
	const isHeld = isMassDelete && !(confirmed !== null && missing <= confirmed);
	if (isHeld) {
		logger.error(
			{ run: context.runId, missing, live },
			'too many contacts are missing in the CRM: nothing is deleted until somebody confirms',
		);
	} else {
		for await (const { found, deleted, denied, unclear } of portal.lookUp(
			await session.run(readMissing, allContacts),
		)) {
			const others: [number[], Unlisted][] = [
				[deleted, 'deleted'],
				[denied, 'denied'],
				[[...unclear.keys()], 'unread'],
			];
			await stage(found, new Map(others.flatMap(([ids, state]) => ids.map((id) => [id, state]))));
			if (denied.length + unclear.size > 0)
				logger.warn({ denied, unclear: Object.fromEntries(unclear) }, 'contacts that cannot be read are kept');
		}
	}
	const { incomplete, denied, unread } = await session.run(countStaging, allContacts);
	const held = isHeld ? { run: context.runId, deletions: missing } : undefined;
	const result = { complete: incomplete === 0, held, denied, unread };
	const changes = await session.run((sql) => finishFull(sql, result), allContacts);
	onUnread('full', unread + incomplete);
	if (incomplete > 0) throw IncompletePassError.ofContacts(incomplete, codes);
	return { seen, ...changes, isHeld };
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
