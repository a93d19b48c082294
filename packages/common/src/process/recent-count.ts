const slices = 4;

/** Counts what happened within the last `windowMs` milliseconds, to a quarter of them. */
export class RecentCount {
	readonly #counts = new Array<number>(slices).fill(0);
	#current = 0;

	constructor(readonly windowMs: number) {}

	add(now: number): void {
		const slice = this.#advance(now);
		this.#counts[slice] = (this.#counts[slice] ?? 0) + 1;
	}

	count(now: number): number {
		this.#advance(now);
		return this.#counts.reduce((sum, count) => sum + count, 0);
	}

	#advance(now: number): number {
		const slice = Math.floor((now * slices) / this.windowMs);
		for (let passed = Math.min(slice - this.#current, slices); passed > 0; passed--)
			this.#counts[(slice - passed + 1) % slices] = 0;
		this.#current = slice;
		return slice % slices;
	}
}
