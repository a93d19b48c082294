import { randomInt } from 'node:crypto';

/** Random numbers that are reproducible with a seed. */
export interface Random {
	/** Set FAULTS_SEED to this to repeat the same faults, as far as the machine's timing allows. */
	readonly seed: number;
	/** An integer within inclusive limits. */
	integer(min: number, max: number): number;
	shuffled<T>(items: readonly T[]): T[];
}

/** The generator is mulberry32. */
export function seededRandom(): Random {
	const seed = Number(process.env.FAULTS_SEED ?? randomInt(2 ** 32));
	let state = seed;
	const next = () => {
		state = (state + 0x6d2b79f5) | 0;
		let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
		mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
		return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
	};
	return {
		seed,
		integer: (min, max) => min + Math.floor(next() * (max - min + 1)),
		shuffled(items) {
			const rest = [...items];
			return items.flatMap(() => rest.splice(Math.floor(next() * rest.length), 1));
		},
	};
}
