/** Milliseconds after which a new sample replaces a better one, so that a corrected clock of the server is followed. */
const bestSampleFor = 5_000;

/** Milliseconds after which a sample says nothing any more: two clocks run apart by less than 0.1 % of it. */
const maxSampleAge = 60_000;

/**
 * A lower bound of the server's clock, in milliseconds since the epoch.
 *
 * A response that holds the server's time was received after that time, so the server's clock was at least there. Between two
 * responses both clocks run at the same speed. So the bound needs no clock of this machine but the one that never goes back,
 * and is late by the time that a response takes.
 */
export class ServerClock {
	#best: { ahead: number; receivedAt: number } | undefined;

	/**
	 * @param time what the server's clock said in a response
	 * @param receivedAt when the response was received, in milliseconds of `performance.now()`
	 */
	addSample(time: number, receivedAt: number): void {
		const ahead = time - receivedAt;
		const best = this.#best;
		if (best === undefined || ahead >= best.ahead || receivedAt - best.receivedAt > bestSampleFor) {
			this.#best = { ahead, receivedAt };
		}
	}

	/** The server's clock shows this time or a later one; undefined without a recent sample. */
	atLeast(now: number): number | undefined {
		if (this.#best === undefined || now - this.#best.receivedAt > maxSampleAge) return undefined;
		return now + this.#best.ahead;
	}

	/** The connection is gone, and the next one may be to another server. */
	reset(): void {
		this.#best = undefined;
	}
}
