import type { Read } from './bitrix24/crm.js';
import { Bitrix24Error } from './bitrix24/errors.js';
import { eventsRun } from './events-run.js';
import { createMapper } from './mapping.js';
import { addExamples, type Counts, IncompleteRunError, isLoss, type RunContext } from './run.js';
import { allContacts } from './session.js';
import { countStaging, finishFull, readMissing, type Staged, stagePage } from './staging.sql.js';
import { beginFull, discardFull, readState, takeConfirmation } from './sync.sql.js';

/** An unfinished run that is older than this starts over. */
const maxUnfinishedAgeMs = 24 * 3_600_000;

/** A run is incomplete if it lists a smaller share of the contacts that the CRM counts. */
const minListedShare = 0.98;

/**
 * Reads every contact of the CRM into a staging table. Then one statement makes them all visible. Readers never see half of a
 * run, and a crash leaves the mirror as it was. The cursor is saved with each page, and the next run continues from there.
 *
 * A contact of the mirror that was not listed is looked up. It is deleted only if the CRM says that it does not exist. The
 * results are staged too: after a restart nothing is looked up twice, and readers see the deletions together with everything
 * else. A contact that is restored after its look-up comes back with its event or with the next full run.
 *
 * What the run would take away is counted before any look-up: contacts that are missing, and phones and companies that would become
 * empty. If it is much, whatever the reason, it is held until somebody confirms so many: nobody is looked up, and what is stored of
 * it stays. Everything else becomes visible, also if a contact is unread: then the run fails.
 *
 * @throws Bitrix24Error, SessionLostError, IncompleteRunError
 */
export async function fullRun(context: RunContext): Promise<Counts> {
	const { crm, session, clock, logger, onProgress, onUnread } = context;
	const map = createMapper(context);
	const examples = new Map<string, number>();
	let handlesEvents = true;

	const { total, at } = await crm.count();
	const { full_begun_at: begun, full_cursor: savedCursor } = await session.run(readState);
	let cursor = 0;
	let seen = 0;
	if (begun === null || Math.abs(clock.now() - begun) > maxUnfinishedAgeMs) {
		await session.run(discardFull, allContacts);
		await session.run((sql) => beginFull(sql, at));
	} else {
		cursor = savedCursor ?? 0;
		seen = (await session.run(countStaging, allContacts)).staged;
		logger.info({ cursor }, 'continuing the full run that was interrupted');
	}
	await session.run(takeConfirmation);

	async function stage(read: Read & Pick<Staged, 'deleted' | 'denied'>): Promise<void> {
		addExamples(examples, read.unread);
		const contacts = await map(read.contacts);
		await session.run((sql) => stagePage(sql, { ...read, contacts }, cursor));
		if (handlesEvents) await handleEvents();
	}

	/** Events do not wait for the end of a long run. The run goes on without them after an error: the loop tries again. */
	async function handleEvents(): Promise<void> {
		try {
			await eventsRun(context);
		} catch (error) {
			if (!(error instanceof Bitrix24Error) || error.kind === 'stop') throw error;
			handlesEvents = error.kind === 'pause';
		}
	}

	for (;;) {
		const page = await crm.page({ after: cursor });
		// A short page is not the end: a contact may have been deleted while the CRM built the page.
		if (page.last === undefined) break;
		cursor = page.last;
		await stage(page);
		seen += page.contacts.length + page.unread.size;
		onProgress(seen, total);
	}

	const { staged, live, missing, emptied } = await session.run(countStaging, allContacts);
	if (total !== undefined && staged < total * minListedShare) {
		// The cursor is at the end: continuing from there would give the same result for ever.
		await session.run((sql) => discardFull(sql, { isIncomplete: true }), allContacts);
		throw new IncompleteRunError(`the CRM counts ${total} contacts and has listed ${staged}`, {
			...{ seen, created: 0, changed: 0, deleted: 0, unread: 0 },
		});
	}
	// Also what was confirmed while this run was under way.
	await session.run(takeConfirmation);
	const { full_confirmed: confirmed, remapped } = await session.run(readState);
	// With another configuration that somebody has confirmed, an empty field is no loss: it may be one of another person.
	const lost = { deletions: missing, emptied: remapped ? 0 : emptied };
	const isHeld = isLoss(lost.deletions + lost.emptied, live) && lost.deletions + lost.emptied > (confirmed ?? 0);
	if (isHeld) {
		logger.error(
			{ run: context.runId, ...lost, live },
			'the CRM lacks too much: what is stored stays until somebody confirms',
		);
	} else {
		const missingIds = await session.run(readMissing, allContacts);
		for await (const lookUps of crm.lookUp(missingIds, { waits: true })) {
			await stage(lookUps);
			const { denied, unread } = lookUps;
			if (denied.length + unread.size > 0)
				logger.warn({ denied, unread: Object.fromEntries(unread) }, 'contacts that cannot be read are kept');
		}
	}
	const { denied, unread } = await session.run(countStaging, allContacts);
	const held = isHeld ? { run: context.runId, ...lost } : undefined;
	const changes = await session.run((sql) => finishFull(sql, { held, denied, unread }), allContacts);
	onUnread('full', unread);
	const counts = { seen, ...changes, isHeld };
	if (unread > 0) throw IncompleteRunError.ofContacts(unread, examples, counts);
	return counts;
}
