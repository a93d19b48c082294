import { expect, test } from 'vitest';
import { createLifetime } from './lifetime.js';
import { interleave } from './rounds.js';

/** Subjects that record the order in which they are measured. The second one fails this often before it succeeds. */
function subjects(failures: number) {
	const order: string[] = [];
	const bench = { progress: () => undefined, repeated: [] as string[], lifetime: createLifetime() };
	let left = failures;
	const subject = (name: string) => ({
		name,
		async measure() {
			order.push(name);
			if (name === 'b' && left-- > 0) throw new Error('1 of 9 requests failed');
			return order.length;
		},
	});
	return { order, bench, all: { a: subject('a'), b: subject('b') } };
}

test('every round measures each subject once, in an order that reverses from round to round', async () => {
	const { order, bench, all } = subjects(0);
	expect(await interleave(bench, 's', 3, all)).toEqual({ a: [1, 4, 5], b: [2, 3, 6] });
	expect(order.join('')).toBe('abbaab');
	expect(bench.repeated).toEqual([]);
});

test('a measurement that fails is made again, and reported; the third failure ends the scenario with its message', async () => {
	const twice = subjects(2);
	expect(await interleave(twice.bench, 's', 1, twice.all)).toEqual({ a: [1], b: [4] });
	expect(twice.bench.repeated).toEqual(Array(2).fill('s: "b" was measured again, because 1 of 9 requests failed.'));
	const always = subjects(3);
	await expect(interleave(always.bench, 's', 1, always.all)).rejects.toThrow('1 of 9 requests failed');
});
