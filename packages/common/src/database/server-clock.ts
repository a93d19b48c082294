/** Milliseconds after which a new sample replaces a better one, so that a corrected clock of the server is followed. */
const bestSampleFor = 5_000;

/** Milliseconds after which a sample says nothing any more: two clocks run apart by less than 0.1 % of it. */
const maxSampleAge = 60_000;

interface Sample {
	/** Milliseconds by which the server's clock is ahead of `performance.now()`, at least or at the most. */
	ahead: number;
	receivedAt: number;
}

/** Bounds of the server's clock, in milliseconds since the epoch. */
interface ClockBounds {
	atLeast: number;
	atMost: number;
}

/**
 * Bounds of the server's clock.
 *
 * A response that holds the server's time was received after that time, and its statement was sent before it. Between two
 * responses both clocks run at the same speed. So the bounds need no clock of this machine but the one that never goes back,
 * and are apart by the time that the quickest of the last statements took.
 */
export class ServerClock {
	#lower: Sample | undefined;
	#upper: Sample | undefined;

	/**
	 * @param time what the server's clock said in a response
	 * @param sentAt when its statement was sent, in milliseconds of `performance.now()`
	 * @param receivedAt when the response was received
	 */
	addSample(time: number, sentAt: number, receivedAt: number): void {
		const lower = { ahead: time - receivedAt, receivedAt };
		const upper = { ahead: time - sentAt, receivedAt };
		const isOld = (best: Sample) => receivedAt - best.receivedAt > bestSampleFor;
		if (this.#lower === undefined || lower.ahead >= this.#lower.ahead || isOld(this.#lower)) this.#lower = lower;
		if (this.#upper === undefined || upper.ahead <= this.#upper.ahead || isOld(this.#upper)) this.#upper = upper;
	}

	/** Between which times the server's clock is; undefined without a recent sample. */
	bounds(now: number): ClockBounds | undefined {
		if (this.#lower === undefined || this.#upper === undefined) return undefined;
		if (now - this.#lower.receivedAt > maxSampleAge || now - this.#upper.receivedAt > maxSampleAge) return undefined;
		return { atLeast: now + this.#lower.ahead, atMost: now + this.#upper.ahead };
	}

	/** The connection is gone, and the next one may be to another server. */
	reset(): void {
		this.#lower = undefined;
		this.#upper = undefined;
	}
}
