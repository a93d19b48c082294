import { expect, test } from 'vitest';
import { secondHalf, slopePerHour } from './slope.js';

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
