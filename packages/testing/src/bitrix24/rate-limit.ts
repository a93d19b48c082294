/** The portal's plan: what the request counter allows, and by how much it falls in a second. [DOC] */
export type Plan = 'standard' | 'enterprise' | 'unlimited';

const plans = {
	standard: { threshold: 50, fallPerSecond: 2 },
	enterprise: { threshold: 250, fallPerSecond: 5 },
	unlimited: { threshold: Number.POSITIVE_INFINITY, fallPerSecond: 0 },
} as const;

/**
 * The leaky bucket. [DOC] Every request raises a counter, kept for each source address; while it is above the threshold,
 * requests are refused; it falls by a fixed amount every second. [INF] It falls at whole seconds of the portal's clock.
 */
export class RequestCounter {
	/** How many requests were refused. */
	refused = 0;
	/** The highest value of any counter so far. */
	highest = 0;

	readonly #limits: { threshold: number; fallPerSecond: number };
	readonly #clock: () => number;
	readonly #refusedCount: () => boolean;
	readonly #levels = new Map<string, { level: number; second: number }>();

	/** @param refusedCount whether a refused request raises the counter too */
	constructor(plan: Plan, clock: () => number, refusedCount: () => boolean) {
		this.#limits = plans[plan];
		this.#clock = clock;
		this.#refusedCount = refusedCount;
	}

	/** Counts a request. @returns whether it is admitted */
	admit(source: string): boolean {
		const second = Math.floor(this.#clock() / 1000);
		const last = this.#levels.get(source) ?? { level: 0, second };
		const fallen = Math.max(0, second - last.second) * this.#limits.fallPerSecond;
		const before = Math.max(0, last.level - fallen);
		const admitted = before + 1 <= this.#limits.threshold;
		const level = admitted || this.#refusedCount() ? before + 1 : before;
		this.#levels.set(source, { level, second: Math.max(second, last.second) });
		this.highest = Math.max(this.highest, level);
		if (!admitted) this.refused++;
		return admitted;
	}
}
