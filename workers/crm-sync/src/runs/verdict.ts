import type { StagingCounts } from '../mirror/staging.sql.js';

/** A run is incomplete if it lists a smaller share of the contacts that the CRM counts. */
const minListedShare = 0.98;

/** What a full run has listed. */
export interface Listed extends Pick<StagingCounts, 'staged' | 'live' | 'missing' | 'emptied'> {
	/** How many contacts the CRM counts, if it says so. */
	total: number | undefined;
	/** How many contacts somebody has confirmed to be lost. */
	confirmed: number | null;
	/** Whether somebody has confirmed another configuration. */
	remapped: boolean;
}

/**
 * Whether a full run may publish what it has listed. Too little is discarded: the CRM has not listed what it counts. A large loss is
 * held: rather the CRM has changed, or what the webhook's user may read, than so many contacts in a day.
 */
export function judge({ total, staged, live, missing, emptied, confirmed, remapped }: Listed) {
	// With another configuration an empty field is no loss: what is stored may be of another person.
	const lost = { deletions: missing, emptied: remapped ? 0 : emptied };
	const contacts = lost.deletions + lost.emptied;
	// More than people change in a day, or everything.
	const isMuch = contacts > Math.max(20, live * 0.02) || (live > 0 && contacts >= live);
	return {
		isIncomplete: total !== undefined && staged < total * minListedShare,
		isHeld: isMuch && contacts > (confirmed ?? 0),
		lost,
	};
}
