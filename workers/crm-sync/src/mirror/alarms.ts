import type { SyncState } from './state.sql.js';

/** What somebody has to look at, while the synchroniser works on: a sentence for each. */
export function describeAlarms(state: SyncState): string[] {
	const { held_run: run, denied_contacts: denied, unread_contacts: unread } = state;
	const [deletions, emptied] = [state.held_deletions ?? 0, state.held_emptied ?? 0];
	const losses = [
		...(deletions > 0 ? [`${deletions} contacts are missing in the CRM`] : []),
		...(emptied > 0 ? [`${emptied} contacts have no phone or no companies there any more`] : []),
	];
	return [
		...(run === null
			? []
			: [
					`${losses.join(', and ')}; what is stored of them stays. If that is right, run "contacts sync --confirm-mass-delete ${run}".`,
				]),
		...(denied > 0 ? [`${denied} contacts can’t be read any more; they are kept as they were.`] : []),
		...(unread > 0 ? [`${unread} contacts could not be read; they are kept as they were.`] : []),
	];
}
