/** A run is incomplete if it lists a smaller share of the contacts that the CRM counts. */
const minListedShare = 0.98;

/** What a full run has listed, in numbers of contacts. */
export interface Listed {
	/** How many the CRM counts, if it says so. */
	total: number | undefined;
	staged: number;
	/** Those of the mirror, those among them that were not listed, and those that would lose their phone or companies. */
	live: number;
	missing: number;
	emptied: number;
	/** How many somebody has confirmed to be lost. */
	confirmed: number | null;
	/** Whether somebody has confirmed another configuration. */
	remapped: boolean;
}

/**
 * Whether a full run may publish what it has listed. Too little is discarded. Too much that would be taken away from partners is held,
 * whatever the reason: then it is rather the CRM that has changed, or what the webhook's user may read, and not the contacts.
 */
export function judge({ total, staged, live, missing, emptied, confirmed, remapped }: Listed) {
	// With another configuration an empty field is no loss: what is stored may be of another person.
	const lost = { deletions: missing, emptied: remapped ? 0 : emptied };
	const contacts = lost.deletions + lost.emptied;
	// More than people change in a day, or all that there are.
	const isMuch = contacts > Math.max(20, live * 0.02) || (live > 0 && contacts >= live);
	return {
		isIncomplete: total !== undefined && staged < total * minListedShare,
		isHeld: isMuch && contacts > (confirmed ?? 0),
		lost,
	};
}
