/** The CRM's plan: how many requests its counter allows, and by how many it falls in a second. */
const plans = {
	standard: { threshold: 50, fallPerSecond: 2 },
	enterprise: { threshold: 250, fallPerSecond: 5 },
} as const;

export type Plan = keyof typeof plans;

/**
 * The leaky bucket: every request raises a counter, also a refused one; above the threshold, requests are refused. The counter
 * falls at whole seconds of the CRM's clock.
 */
export class RequestCounter {
	/** How many requests were refused. */
	refused = 0;
	/** The highest value so far. */
	highest = 0;
	#level = 0;
	#second = 0;

	constructor(
		private readonly plan: Plan,
		private readonly clock: () => number,
	) {}

	/** Counts a request. @returns whether it is admitted */
	admit(): boolean {
		const { threshold, fallPerSecond } = plans[this.plan];
		const second = Math.floor(this.clock() / 1000);
		this.#level = 1 + Math.max(0, this.#level - Math.max(0, second - this.#second) * fallPerSecond);
		this.#second = Math.max(second, this.#second);
		this.highest = Math.max(this.highest, this.#level);
		if (this.#level <= threshold) return true;
		this.refused++;
		return false;
	}
}

const basketMs = 60_000;
const windowMs = 600_000;

/**
 * The seconds for which each method was executed within the last ten minutes, in baskets of a minute. A method above the limit
 * is refused until enough baskets are free again. Other methods go on.
 */
export class OperatingTime {
	/** How many calls were refused. */
	refused = 0;
	readonly #baskets = new Map<string, { from: number; seconds: number }[]>();

	constructor(
		private readonly limitSeconds: number,
		private readonly clock: () => number,
	) {}

	/** Whether the method may be called now. It is measured after the call, so one call can exceed the limit. */
	admit(method: string): boolean {
		if (this.spent(method) <= this.limitSeconds) return true;
		this.refused++;
		return false;
	}

	/** Adds the time of a call that has ended. */
	add(method: string, seconds: number): void {
		const now = this.clock();
		const baskets = this.#current(method);
		const last = baskets.at(-1);
		if (last !== undefined && now < last.from + basketMs) last.seconds += seconds;
		else baskets.push({ from: now, seconds });
		this.#baskets.set(method, baskets);
	}

	/** The seconds of the last ten minutes. */
	spent(method: string): number {
		return this.#current(method).reduce((sum, basket) => sum + basket.seconds, 0);
	}

	/** When the oldest basket is freed, in whole seconds since the epoch. The method may be refused even then. */
	resetAt(method: string): number {
		const oldest = this.#current(method)[0]?.from ?? this.clock();
		return Math.floor((oldest + windowMs) / 1000);
	}

	#current(method: string): { from: number; seconds: number }[] {
		const since = this.clock() - windowMs;
		return (this.#baskets.get(method) ?? []).filter((basket) => basket.from > since);
	}
}
