import { describe, expect, test } from 'vitest';
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

test('exactly 250 requests pass at once', () => {
	expect(bucket().admitted(300)).toBe(250);
});

test('after the burst one request passes every 200 milliseconds, without windows', () => {
	const { admitted, wait } = bucket();
	admitted(250);
	wait(199);
	expect(admitted(10)).toBe(0);
	wait(1);
	expect(admitted(10)).toBe(1);
	const perStep = Array.from({ length: 100 }, () => {
		wait(100);
		return admitted(10);
	});
	expect(perStep).toEqual(Array.from({ length: 100 }, (_, index) => index % 2));
});

test('a bucket never saves up more than its burst, however long it is idle', () => {
	const { admitted, wait } = bucket();
	admitted(250);
	wait(50_000);
	expect(admitted(300)).toBe(250);
	wait(3_600_000);
	expect(admitted(300)).toBe(250);
});

test('a refused request uses no token: a flood does not delay the next token', () => {
	const { admitted, wait } = bucket();
	admitted(250);
	admitted(100_000);
	wait(200);
	expect(admitted(10)).toBe(1);
});

test('a decision says how many tokens are left, when the bucket is full again, and when the next token comes', () => {
	const { buckets, wait } = bucket({ perSecond: 5, burst: 3 });
	expect(buckets.take('a')).toEqual({ admitted: true, remaining: 2, waitMs: 200 });
	expect(buckets.take('a')).toEqual({ admitted: true, remaining: 1, waitMs: 400 });
	expect(buckets.take('a')).toEqual({ admitted: true, remaining: 0, waitMs: 600 });
	expect(buckets.take('a')).toEqual({ admitted: false, remaining: 0, waitMs: 200 });
	wait(50);
	expect(buckets.take('a')).toEqual({ admitted: false, remaining: 0, waitMs: 150 });
});

test('each name has its own bucket', () => {
	const { admitted } = bucket();
	expect([admitted(300, 'a'), admitted(300, 'b')]).toEqual([250, 250]);
});

test('the number of buckets is bounded: the least recently used one is dropped', () => {
	const { admitted } = bucket({ perSecond: 1, burst: 1 }, 2);
	expect([admitted(1, 'a'), admitted(1, 'b'), admitted(1, 'a'), admitted(1, 'c')]).toEqual([1, 1, 0, 1]);
	expect(admitted(1, 'a')).toBe(0);
	expect(admitted(1, 'b')).toBe(1);
});

describe('an impossible arrival counts as an empty bucket, not as a longer wait', () => {
	test('after the clock was set back by a day', () => {
		const { buckets, admitted, wait } = bucket();
		admitted(250);
		wait(-86_400_000);
		expect(buckets.take('a')).toEqual({ admitted: false, remaining: 0, waitMs: 200 });
		wait(199);
		expect(admitted(10)).toBe(0);
		wait(1);
		expect(admitted(10)).toBe(1);
		wait(50_000);
		expect(admitted(300)).toBe(250);
	});

	test('after the limit changed from 1 a second and 600 to 5 a second and 250', () => {
		const now = 1_000_000;
		const [refused, arrival] = decide(usual, now + 600_000, now);
		expect([refused, arrival]).toEqual([{ admitted: false, remaining: 0, waitMs: 200 }, now + 50_000]);
		expect(decide(usual, arrival, now + 200)).toEqual([{ admitted: true, remaining: 0, waitMs: 50_000 }, now + 50_200]);
	});
});

describe('the decisions equal those of an independent bucket of real tokens', () => {
	/** Tokens that drip in one by one: slower and simpler than arithmetic on arrival times. */
	function referenceBucket({ perSecond, burst }: BucketPolicy, start: number) {
		let tokens = burst;
		let dripped = start;
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
		{ perSecond: 8, burst: 30 },
	])('$perSecond a second, burst $burst, 5,000 random arrivals', (policy) => {
		let seed = policy.burst;
		const random = () => {
			seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
			return seed / 2_147_483_648;
		};
		const { buckets, wait } = bucket(policy);
		const reference = referenceBucket(policy, 0);
		let now = 0;
		for (let request = 0; request < 5000; request++) {
			const pause =
				random() < 0.02
					? Math.floor(random() * 2000 * (policy.burst / policy.perSecond))
					: Math.floor(random() ** 3 * 400);
			now += pause;
			wait(pause);
			expect(buckets.take('a').admitted, `request ${request} at ${now}`).toBe(reference(now));
		}
	});
});
