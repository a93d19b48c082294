import type { Found } from '../bitrix24/crm.js';
import { Bitrix24Error } from '../bitrix24/errors.js';
import { createMapper } from '../mapping.js';
import { takeConfirmation } from '../mirror/requests.sql.js';
import { saveProgress } from '../mirror/runs.sql.js';
import { allContacts } from '../mirror/session.js';
import { countStaging, finishFull, readMissing, stagePage } from '../mirror/staging.sql.js';
import { beginFull, discardFull } from '../mirror/state.sql.js';
import { eventsRun } from './events.js';
import { addCounts, addExamples, IncompleteRunError, type RunContext } from './run.js';
import { judge } from './verdict.js';

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
 * @param cursor after which contact an unfinished run continues; undefined: a new one begins
 * @throws Bitrix24Error, SessionLostError, IncompleteRunError
 */
export async function fullRun(context: RunContext, cursor: number | undefined): Promise<void> {
	const { crm, session, logger, runId, record, onUnread } = context;
	const map = createMapper(context);
	const examples = new Map<string, number>();
	let handlesEvents = true;

	const { total, at } = await crm.count();
	let last = cursor ?? 0;
	if (cursor === undefined) await session.run((sql) => beginFull(sql, at));
	else record.seen = (await session.run(countStaging, allContacts)).staged;
	await session.run(takeConfirmation);

	async function stage(found: Found): Promise<void> {
		addExamples(examples, found.unread);
		const rows = await map(found);
		await session.run((sql) => stagePage(sql, rows, last));
		if (handlesEvents) await handleEvents();
	}

	/** Events do not wait for the end of a long run. The run goes on without them after an error: the loop tries again. */
	async function handleEvents(): Promise<void> {
		const { seen } = record;
		try {
			await eventsRun(context);
		} catch (error) {
			if (!(error instanceof Bitrix24Error) || error.kind === 'stop') throw error;
			handlesEvents = error.kind === 'pause';
		} finally {
			// The progress of the run: only what it has listed.
			record.seen = seen;
		}
	}

	for (;;) {
		const page = await crm.page({ after: last });
		// A short page is not the end: a contact may have been deleted while the CRM built the page.
		if (page.last === undefined) break;
		last = page.last;
		await stage(page);
		record.seen += page.contacts.length + page.unread.size;
		await session.run((sql) => saveProgress(sql, runId, record.seen, total));
	}

	const listed = await session.run(countStaging, allContacts);
	// Also what was confirmed while this run was under way.
	const confirmation = await session.run(takeConfirmation);
	const { isIncomplete, isHeld, lost } = judge({ total, ...listed, ...confirmation });
	if (isIncomplete) {
		// The cursor is at the end: continuing from there would give the same result for ever.
		await session.run((sql) => discardFull(sql, { isIncomplete: true }), allContacts);
		throw new IncompleteRunError(`the CRM counts ${total} contacts and has listed ${listed.staged}`, record);
	}
	if (isHeld) {
		logger.error(
			{ run: runId, ...lost, live: listed.live },
			'the CRM lacks too much: what is stored stays until somebody confirms',
		);
	} else {
		const missingIds = await session.run(readMissing, allContacts);
		for await (const found of crm.lookUp(missingIds, { waits: true })) {
			await stage(found);
			const { denied, unread } = found;
			if (denied.length + unread.size > 0)
				logger.warn({ denied, unread: Object.fromEntries(unread) }, 'contacts that cannot be read are kept');
		}
	}
	const { denied, unread } = await session.run(countStaging, allContacts);
	const held = isHeld ? { run: runId, ...lost } : undefined;
	const { phones, ...changes } = await session.run((sql) => finishFull(sql, { held, denied, unread }), allContacts);
	addCounts(record, { ...changes, unread });
	record.isHeld = isHeld;
	record.phones = phones;
	onUnread('full', unread);
	if (unread > 0) throw IncompleteRunError.ofContacts(record, examples);
}
