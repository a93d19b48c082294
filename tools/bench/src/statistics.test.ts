import { describe, expect, test } from 'vitest';
import { compare } from './report.js';
import { costOf, type Measurement } from './rounds.js';
import { cheapestQuarter, figuresOf, median, quantile, ratiosOf, secondHalf, slopePerHour } from './statistics.js';

describe('median', () => {
	test('is the middle value, or the mean of the two in the middle, and does not change its input', () => {
		const values = [9, 1, 5];
		expect(median(values)).toBe(5);
		expect(values).toEqual([9, 1, 5]);
		expect(median([10, 2, 4, 100])).toBe(7);
		expect(median([3])).toBe(3);
	});

	test('of no values throws', () => {
		expect(() => median([])).toThrow(RangeError);
	});
});

test('figures have the rounds in order, and their spread', () => {
	expect(figuresOf([3, 1, 2])).toEqual({ median: 2, min: 1, max: 3, rounds: [3, 1, 2] });
});

describe('ratios', () => {
	test('are computed round by round, so that a slow period affects both', () => {
		// The second round ran on a machine half as fast.
		expect(ratiosOf([80, 40, 90], [100, 50, 100])).toMatchObject({ rounds: [0.8, 0.8, 0.9], median: 0.8 });
	});

	test('of an unequal number of rounds throw', () => {
		expect(() => ratiosOf([1, 2], [1])).toThrow(RangeError);
	});
});

test('a quantile is one of the values, by nearest rank', () => {
	const sorted = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
	expect([0, 0.5, 0.9, 0.99, 1].map((part) => quantile(sorted, part))).toEqual([1, 5, 9, 10, 10]);
	expect(quantile([7], 0.5)).toBe(7);
	expect(() => quantile([], 0.5)).toThrow(RangeError);
});

test('the cheapest quarter is the mean of the smallest values, at least of one', () => {
	expect(cheapestQuarter([9, 1, 8, 3, 7, 6, 5, 4])).toBe(2);
	expect(cheapestQuarter([5, 4])).toBe(4);
	expect(() => cheapestQuarter([])).toThrow(RangeError);
});

test('the cost of a request is the mean of the cheapest windows of all rounds, in microseconds', () => {
	const measurement = (...costs: number[]): Measurement => ({
		...{ perSecond: 1, latency: { p50: 1, p99: 1 }, cpu: null },
		windows: costs.map((cost) => ({ responses: 1000, cpuSeconds: cost / 1000 })),
	});
	// While another process ran on the machine, a request cost twice as much.
	expect(costOf([measurement(40, 81, 80, 80), measurement(42, 90, 85, 88)])).toBeCloseTo(41);
	expect(costOf([measurement()])).toBeNull();
});

describe('a comparison', () => {
	const input = { scenario: 's', figure: 'throughput', unit: '/s' } as const;
	const baseline = { name: 'r', values: [100, 100, 100] };

	test.each([
		{ ours: [79, 80, 95], target: { of: 'ratio', atLeast: 0.8 }, met: true },
		{ ours: [79, 79, 95], target: { of: 'ratio', atLeast: 0.8 }, met: false },
		{ ours: [105, 105, 105], target: { of: 'ratio', atMost: 1.05 }, met: true },
		{ ours: [106, 106, 106], target: { of: 'ratio', atMost: 1.05 }, met: false },
		{ ours: [251, 252, 253], target: { of: 'ours', atMost: 251 }, met: false },
		{ ours: [1, 2, 3], target: { of: 'ours', atMost: 2 }, met: true },
	] as const)('of $ours with target $target: met is $met', ({ ours, target, met }) => {
		expect(compare({ ...input, ours, baseline, target }).met).toBe(met);
	});

	test('without a target is neither met nor missed, and a ratio needs a baseline to be met', () => {
		expect(compare({ ...input, ours: [1, 1, 1], baseline }).met).toBeNull();
		expect(compare({ ...input, ours: [1], target: { of: 'ratio', atLeast: 0 } })).toMatchObject({
			ratio: null,
			met: false,
		});
	});

	test('of costs is met or missed only where the system reports the cost of both servers', () => {
		const costs = (mine: number | null, other: number | null) =>
			compare({
				...{ ...input, ours: [50], cost: mine, target: { of: 'cost', atMost: 2 } },
				baseline: { name: 'r', values: [100], cost: other },
			});
		expect(costs(40, 20)).toMatchObject({ cost: { ours: 40, baseline: 20, ratio: 2 }, met: true });
		expect(costs(41, 20)).toMatchObject({ met: false });
		expect(costs(null, 20)).toMatchObject({ cost: null, met: null });
		expect(costs(40, null)).toMatchObject({ cost: null, met: null });
	});
});

test('the slope of a straight line is exact, per hour', () => {
	expect(
		slopePerHour([
			[0, 80],
			[60, 80.5],
			[120, 81],
		]),
	).toBeCloseTo(30);
	expect(
		slopePerHour([
			[10, 5],
			[20, 5],
			[30, 5],
		]),
	).toBe(0);
});

test('noise that is equal at both ends does not change the slope', () => {
	expect(
		slopePerHour([
			[0, 1],
			[1, 3],
			[2, 1],
			[3, 3],
			[4, 1],
		]),
	).toBeCloseTo(0);
});

test('one point, or points at the same time, have no slope', () => {
	expect([
		slopePerHour([[5, 7]]),
		slopePerHour([
			[5, 7],
			[5, 9],
		]),
	]).toEqual([0, 0]);
});

test('the second half is half of the time, not of the points', () => {
	expect(
		secondHalf([
			[0, 1],
			[1, 2],
			[2, 3],
			[10, 4],
			[20, 5],
		]),
	).toEqual([
		[10, 4],
		[20, 5],
	]);
});
