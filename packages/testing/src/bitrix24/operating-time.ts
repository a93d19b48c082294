const basketMilliseconds = 60_000;
const windowMilliseconds = 600_000;

interface Basket {
	from: number;
	seconds: number;
}

/**
 * How long each method was executed within the last ten minutes, in ten baskets of a minute. [DOC] A method above the limit is
 * blocked until enough baskets are free again; other methods go on. [REC] A basket is freed ten minutes after its first call.
 */
export class OperatingTime {
	/** How many calls were refused. */
	refused = 0;

	readonly #limitSeconds: number;
	readonly #clock: () => number;
	readonly #baskets = new Map<string, Basket[]>();

	constructor(limitSeconds: number, clock: () => number) {
		this.#limitSeconds = limitSeconds;
		this.#clock = clock;
	}

	/** Whether the method may be called now. It may when it is at the limit, so that one call can overshoot. [DOC] */
	admits(method: string): boolean {
		const admitted = this.spent(method) <= this.#limitSeconds;
		if (!admitted) this.refused++;
		return admitted;
	}

	/** Adds the time of a call that has ended. */
	add(method: string, seconds: number): void {
		const now = this.#clock();
		const baskets = this.#current(method);
		const last = baskets.at(-1);
		if (last !== undefined && now < last.from + basketMilliseconds) last.seconds += seconds;
		else baskets.push({ from: now, seconds });
		this.#baskets.set(method, baskets);
	}

	/** The seconds of the last ten minutes. */
	spent(method: string): number {
		return this.#current(method).reduce((sum, basket) => sum + basket.seconds, 0);
	}

	/** When the oldest basket is freed, in whole seconds since the epoch; the method may be blocked even then. [DOC] */
	resetAt(method: string): number {
		const oldest = this.#current(method)[0]?.from ?? this.#clock();
		return Math.floor((oldest + windowMilliseconds) / 1000);
	}

	#current(method: string): Basket[] {
		const since = this.#clock() - windowMilliseconds;
		return (this.#baskets.get(method) ?? []).filter((basket) => basket.from > since);
	}
}
