import { LRUCache } from 'lru-cache';

/** A bucket holds `burst` tokens and gains `perSecond` tokens a second. A request uses one token. */
export interface BucketPolicy {
	perSecond: number;
	burst: number;
}

export interface Decision {
	admitted: boolean;
	/** Whole tokens left. */
	remaining: number;
	/** Milliseconds. If admitted: until the bucket is full again. If refused: until the next token. */
	waitMs: number;
}

/**
 * The generic cell rate algorithm (ITU-T I.371). It is a token bucket that stores one number: the theoretical arrival time of
 * the next request, `arrival`, in milliseconds. Tokens arrive continuously, not in windows. A refused request uses no token.
 *
 * The clock may have been set back, or the policy may have changed. Then the stored arrival can be later than that of an empty
 * bucket. It counts as an empty bucket: otherwise every request would be refused until that arrival.
 *
 * @returns the decision and the arrival time to store
 */
export function decide({ perSecond, burst }: BucketPolicy, arrival: number, now: number): [Decision, number] {
	const interval = 1000 / perSecond;
	const effectiveArrival = Math.min(Math.max(arrival, now), now + burst * interval);
	const tolerance = (burst - 1) * interval;
	if (effectiveArrival - now > tolerance) {
		return [{ admitted: false, remaining: 0, waitMs: Math.ceil(effectiveArrival - now - tolerance) }, effectiveArrival];
	}
	const next = effectiveArrival + interval;
	// Keeps a sum of fractions that should be a whole number from being rounded down. Milliseconds since the start of a process
	// have a rounding error of about 1e-9 tokens.
	const remaining = Math.floor((burst * interval - (next - now)) / interval + 1e-9);
	return [{ admitted: true, remaining, waitMs: Math.ceil(next - now) }, next];
}

/**
 * The buckets of this process, by name, in bounded memory. With more than `maxBuckets` names, the least recently used bucket
 * is dropped. It is full the next time.
 *
 * @param clock monotonic milliseconds
 */
export function createBuckets(policy: BucketPolicy, maxBuckets: number, clock: () => number) {
	const arrivals = new LRUCache<string, number>({ max: maxBuckets });
	return {
		take(name: string): Decision {
			const [decision, arrival] = decide(policy, arrivals.get(name) ?? 0, clock());
			arrivals.set(name, arrival);
			return decision;
		},
	};
}
