import { describe, expect, test } from 'vitest';
import { PauseDetector, ServerClock } from './server-clock.js';

test('the bound never exceeds the server’s clock and uses the fastest response', () => {
	const clock = new ServerClock();
	expect(clock.atLeast(1_000)).toBeUndefined();
	// The server’s clock is 50,000 ahead; responses take 80, 20 and 300.
	clock.addSample(51_000, 1_080);
	clock.addSample(52_000, 2_020);
	clock.addSample(53_000, 3_300);
	expect(clock.atLeast(2_020)).toBe(52_000);
	// 20 for the response, 2 for the two seconds since then, in which the clocks may have drifted apart.
	expect(clock.atLeast(4_020)).toBe(53_998);
});

test('the bound stays below a clock that runs slower than this machine’s', () => {
	const clock = new ServerClock();
	const server = (now: number) => 50_000 + now * 0.9995;
	clock.addSample(server(0), 0);
	for (let now = 100; now <= 5_000; now += 100) {
		expect(clock.atLeast(now)).toBeLessThanOrEqual(server(now));
		// A slow response, which improves nothing.
		clock.addSample(server(now) - 400, now);
	}
});

test('the bound follows a clock that was set back within seconds', () => {
	const clock = new ServerClock();
	clock.addSample(50_000, 0);
	clock.addSample(41_000, 1_000);
	expect(clock.atLeast(1_000)).toBe(50_999);
	clock.addSample(46_000, 6_000);
	expect(clock.atLeast(6_000)).toBe(46_000);
});

test('an old sample and one of another connection are ignored', () => {
	const clock = new ServerClock();
	clock.addSample(50_000, 0);
	expect(clock.atLeast(60_000)).toBe(109_940);
	expect(clock.atLeast(60_001)).toBeUndefined();
	clock.addSample(50_000, 60_001);
	clock.reset();
	expect(clock.atLeast(60_002)).toBeUndefined();
});

describe('a pause of this machine', () => {
	test.each<[string, boolean, [time: number, sentAt: number, receivedAt: number]]>([
		['is seen when the server’s clock went on meanwhile', true, [59_000, 1_000, 1_010]],
		['is seen although the response is slow', true, [59_000, 1_000, 3_000]],
		['is not a slow request', false, [54_000, 1_000, 4_000]],
		['is not a slow response', false, [51_000, 1_000, 4_000]],
		['is not a server whose clock differs a little', false, [51_300, 1_000, 1_010]],
		['is not a clock that was set back', false, [41_000, 1_000, 1_010]],
		['is not what the clocks may have drifted apart in an hour', false, [3_651_500, 3_600_000, 3_600_010]],
	])('%s', (_, expected, response) => {
		const pauses = new PauseDetector();
		// The server's clock is 50,000 ahead.
		expect(pauses.addSample(50_010, 0, 20)).toBe(false);
		// A slow response tells less than the one before.
		expect(pauses.addSample(50_500, 100, 500)).toBe(false);
		expect(pauses.addSample(...response)).toBe(expected);
		// Once.
		expect(pauses.addSample(...response)).toBe(false);
	});
});
