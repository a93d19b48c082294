import type { SyncState } from './sync.sql.js';

/** What somebody has to look at, while the synchroniser works on: a sentence for each. */
export function describeAlarms(
	state: Pick<SyncState, 'held_run' | 'held_deletions' | 'denied_contacts' | 'unread_contacts'>,
): string[] {
	const { held_run: run, held_deletions: deletions, denied_contacts: denied, unread_contacts: unread } = state;
	return [
		...(run === null
			? []
			: [
					`${deletions} contacts are missing in the CRM; nothing was deleted. If that is right, run "contacts sync --confirm-mass-delete ${run}".`,
				]),
		...(denied > 0 ? [`${denied} contacts can’t be read any more; they are kept as they were.`] : []),
		...(unread > 0 ? [`${unread} contacts could not be read; they are kept as they were.`] : []),
	];
}
