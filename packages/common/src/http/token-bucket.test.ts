import { expect, test } from 'vitest';
import { type BucketPolicy, createBuckets, decide } from './token-bucket.js';

const usual: BucketPolicy = { perSecond: 5, burst: 250 };

/** A bucket whose clock stands still unless a test moves it. */
function bucket(policy = usual, capacity = 10) {
	let now = 1_000_000;
	const buckets = createBuckets(policy, capacity, () => now);
	const admitted = (requests: number, name = 'a') =>
		Array.from({ length: requests }, () => buckets.take(name)).filter((decision) => decision.admitted).length;
	const wait = (milliseconds: number) => {
		now += milliseconds;
	};
	return { buckets, admitted, wait };
}

test('a flood does not delay the next token, and a bucket never saves up more than its burst', () => {
	const { admitted, wait } = bucket();
	expect(admitted(100_000)).toBe(250);
	wait(199);
	expect(admitted(10)).toBe(0);
	wait(1);
	expect(admitted(10)).toBe(1);
	wait(3_600_000);
	expect(admitted(300)).toBe(250);
});

test('a decision says how many tokens are left, when the bucket is full again, and when the next token comes', () => {
	const { buckets, wait } = bucket({ perSecond: 5, burst: 3 });
	expect(buckets.take('a')).toEqual({ admitted: true, remaining: 2, waitMs: 200 });
	expect(buckets.take('a')).toEqual({ admitted: true, remaining: 1, waitMs: 400 });
	expect(buckets.take('a')).toEqual({ admitted: true, remaining: 0, waitMs: 600 });
	wait(50);
	expect(buckets.take('a')).toEqual({ admitted: false, remaining: 0, waitMs: 150 });
});

test('the number of buckets is bounded: the least recently used one is dropped', () => {
	const { admitted } = bucket({ perSecond: 1, burst: 1 }, 2);
	expect([admitted(1, 'a'), admitted(1, 'b'), admitted(1, 'a'), admitted(1, 'c')]).toEqual([1, 1, 0, 1]);
	expect([admitted(1, 'a'), admitted(1, 'b')]).toEqual([0, 1]);
});

test('after the clock was set back, or the limit changed, a bucket counts as empty and not as a longer wait', () => {
	const { buckets, admitted, wait } = bucket();
	admitted(250);
	wait(-86_400_000);
	expect(buckets.take('a')).toEqual({ admitted: false, remaining: 0, waitMs: 200 });
	wait(200);
	expect(admitted(10)).toBe(1);
	wait(50_000);
	expect(admitted(300)).toBe(250);
	// From 1 a second and 600 to 5 a second and 250.
	const now = 1_000_000;
	const [refused, arrival] = decide(usual, now + 600_000, now);
	expect([refused, arrival]).toEqual([{ admitted: false, remaining: 0, waitMs: 200 }, now + 50_000]);
});

/** Tokens that drip in one by one: slower and simpler than arithmetic on arrival times. */
function createReference({ perSecond, burst }: BucketPolicy) {
	let tokens = burst;
	let dripped = 0;
	return (now: number) => {
		if (tokens === burst) dripped = now;
		while (tokens < burst && now - dripped >= 1000 / perSecond) {
			tokens++;
			dripped += 1000 / perSecond;
		}
		if (tokens === 0) return false;
		if (tokens === burst) dripped = now;
		tokens--;
		return true;
	};
}

test.each([
	{ perSecond: 5, burst: 250 },
	{ perSecond: 1, burst: 1 },
	{ perSecond: 100, burst: 7 },
])('the decisions equal those of an independent bucket of real tokens: $perSecond a second, burst $burst', (policy) => {
	let seed = policy.burst;
	const random = () => {
		seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
		return seed / 2_147_483_648;
	};
	const { buckets, wait } = bucket(policy);
	const reference = createReference(policy);
	let now = 0;
	for (let request = 0; request < 5000; request++) {
		const longest = random() < 0.02 ? 2000 * (policy.burst / policy.perSecond) : 400 * random() ** 2;
		const pause = Math.floor(random() * longest);
		now += pause;
		wait(pause);
		if (buckets.take('a').admitted !== reference(now)) expect.unreachable(`request ${request} at ${now}`);
	}
});
