import { expect, test } from 'vitest';
import { ServerClock } from './expiring-write.js';

test('the lower bound never exceeds the server’s clock and uses the fastest response', () => {
	const clock = new ServerClock();
	expect(clock.bounds(1_000)).toBeUndefined();
	// The server’s clock is 50,000 ahead; responses take 80, 20 and 300.
	clock.addSample(51_000, 1_080, 1_080);
	clock.addSample(52_000, 2_020, 2_020);
	clock.addSample(53_000, 3_300, 3_300);
	expect(clock.bounds(4_000)?.atLeast).toBe(53_980);
});

test('the bounds follow a clock that was set back within seconds', () => {
	const clock = new ServerClock();
	clock.addSample(50_000, 0, 0);
	clock.addSample(41_000, 1_000, 1_000);
	expect(clock.bounds(1_000)?.atLeast).toBe(51_000);
	clock.addSample(46_000, 6_000, 6_000);
	expect(clock.bounds(6_000)?.atLeast).toBe(46_000);
});

test('an old sample and one of another connection are ignored', () => {
	const clock = new ServerClock();
	clock.addSample(50_000, 0, 0);
	expect(clock.bounds(60_000)?.atLeast).toBe(110_000);
	expect(clock.bounds(60_001)).toBeUndefined();
	clock.addSample(50_000, 60_001, 60_001);
	clock.reset();
	expect(clock.bounds(60_002)).toBeUndefined();
});

test('the upper bound is the earliest that any of the last responses allows', () => {
	const clock = new ServerClock();
	// Sent at 1,000 and on its way for an unknown part of 80 ms.
	clock.addSample(51_000, 1_000, 1_080);
	clock.addSample(52_000, 1_990, 2_020);
	clock.addSample(53_000, 2_700, 3_300);
	expect(clock.bounds(4_000)).toEqual({ atLeast: 53_980, atMost: 54_000 });
});
