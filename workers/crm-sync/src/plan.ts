import { compare, type MirrorConfiguration } from './mirror/configuration.js';
import type { SyncState } from './mirror/state.sql.js';

/** Only a full run finds every deletion, merge and changed link. */
const fullRunIntervalMs = 24 * 3_600_000;

/** An unfinished run that is older than this starts over. */
const maxUnfinishedAgeMs = 24 * 3_600_000;

/** An incomplete full run is repeated after this time. Incremental runs go on meanwhile. */
const incompleteRetryMs = 3_600_000;

/** All that decides which run is made. */
export interface Situation {
	state: Pick<SyncState, 'configuration' | 'categories' | 'watermark' | 'last_full_at' | 'full_begun_at'>;
	/** What a command requests. A full run is then one that begins now. */
	request: 'incremental' | 'full' | undefined;
	own: MirrorConfiguration;
	/** The categories whose contacts are mirrored, as the CRM tells them. */
	categories: Iterable<number>;
	/** Milliseconds since the epoch, as all times. */
	now: number;
	intervalMs: number;
	/** When this process last found a full run incomplete. */
	incompleteAt: number;
}

/** Which run is made, from which contact on, and why. */
export interface Plan {
	kind: 'full' | 'incremental';
	/** Whether a full run begins with the first contact: one that is unfinished is discarded. */
	fromStart: boolean;
	/** For the log. */
	reason: string;
}

export function planRun({ state, request, own, categories, now, intervalMs, incompleteAt }: Situation): Plan {
	const fromStart = (reason: string): Plan => ({ kind: 'full', fromStart: true, reason });
	// A time in the future is from before the clock was set back.
	const isWithin = (time: number, milliseconds: number) => Math.abs(now - time) < milliseconds;

	if (state.configuration === null) return fromStart('first run');
	if (compare(state.configuration, own).isNew) return fromStart('another configuration');
	if ([...categories].some((id) => !state.categories.includes(id))) return fromStart('a category that was not read');
	if (request === 'full') return fromStart('requested');
	if (state.full_begun_at !== null)
		return isWithin(state.full_begun_at, maxUnfinishedAgeMs)
			? { kind: 'full', fromStart: false, reason: 'unfinished' }
			: fromStart('unfinished for too long');
	if (state.watermark === null) return fromStart('never complete');
	const isRepeatedLater = request === undefined && isWithin(incompleteAt, incompleteRetryMs);
	// The run nearest to the due time is full.
	if (!isRepeatedLater && !isWithin(state.last_full_at ?? 0, fullRunIntervalMs - intervalMs / 2))
		return fromStart('due');
	return { kind: 'incremental', fromStart: false, reason: 'changes' };
}
