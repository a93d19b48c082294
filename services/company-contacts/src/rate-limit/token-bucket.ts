import { LRUCache } from 'lru-cache';

/** A bucket that holds `burst` tokens and gets `perSecond` new ones a second; a request takes one. */
export interface BucketPolicy {
	perSecond: number;
	burst: number;
}

/** What a bucket decided on one request. */
export interface Decision {
	admitted: boolean;
	/** Whole tokens left. */
	remaining: number;
	/** Milliseconds: when admitted, until the bucket is full again; when not, until the next token. */
	wait: number;
}

/**
 * The generic cell rate algorithm (ITU-T I.371), a token bucket that needs one number: the theoretical arrival time of the
 * next request, `arrival`, in milliseconds. Granted continuously, never in windows; a request that is refused takes nothing.
 *
 * No bucket is emptier than empty. An arrival later than that of an empty bucket was kept before the clock was set back or
 * under another policy, and counts as an empty bucket: otherwise it would refuse everything for as long as it lies ahead.
 *
 * @returns the decision, and the arrival time to keep
 */
export function decide({ perSecond, burst }: BucketPolicy, arrival: number, now: number): [Decision, number] {
	const interval = 1000 / perSecond;
	const begun = Math.min(Math.max(arrival, now), now + burst * interval);
	const tolerance = (burst - 1) * interval;
	if (begun - now > tolerance) {
		return [{ admitted: false, remaining: 0, wait: Math.ceil(begun - now - tolerance) }, begun];
	}
	const next = begun + interval;
	// The epsilon keeps a sum of fractions that should be whole from being rounded down.
	const remaining = Math.floor((burst * interval - (next - now)) / interval + 1e-9);
	return [{ admitted: true, remaining, wait: Math.ceil(next - now) }, next];
}

/** Buckets of this process, by name. */
export interface Buckets {
	take(name: string): Decision;
}

/**
 * Buckets in bounded memory: when there are more names than `capacity`, the one that was asked for least recently is
 * forgotten, and is full the next time.
 *
 * @param clock milliseconds that never go back
 */
export function createBuckets(policy: BucketPolicy, capacity: number, clock: () => number): Buckets {
	const arrivals = new LRUCache<string, number>({ max: capacity });
	return {
		take(name) {
			const [decision, arrival] = decide(policy, arrivals.get(name) ?? 0, clock());
			arrivals.set(name, arrival);
			return decision;
		},
	};
}
