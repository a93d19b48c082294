import { expect, test } from 'vitest';
import { secondHalf, slopePerHour } from './slope.js';

test('a straight line has its own slope, per hour', () => {
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

test('noise that is alike at both ends does not count', () => {
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

test('one point, or all at one time, have none', () => {
	expect([
		slopePerHour([[5, 7]]),
		slopePerHour([
			[5, 7],
			[5, 9],
		]),
	]).toEqual([0, 0]);
});

test('the second half is one of the time, not of the count', () => {
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
