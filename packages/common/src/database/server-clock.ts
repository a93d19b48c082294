/** Milliseconds after which a new sample replaces a better one, so that the bound follows a corrected server clock. */
const maxBestSampleAgeMs = 5_000;

/** Milliseconds after which a sample is invalid. */
const maxSampleAgeMs = 60_000;

/** How much faster than the server's clock this machine's monotonic one may run. Both are corrected by at most 0.05 %. */
const drift = 0.001;

/**
 * A shorter pause of this machine is not looked for, in milliseconds: the clocks of a cluster's servers may differ, and callers wait
 * longer than a write may take.
 */
const minPauseMs = 500;

interface Sample {
	/** How far the server's clock was ahead of `performance.now()` at least, in milliseconds. */
	ahead: number;
	receivedAt: number;
}

/**
 * A lower bound of the server's clock. The response with the server's time was received after that time. The bound needs
 * only the monotonic clock of this machine. It is too low by no more than the fastest recent response took, and the drift.
 */
export class ServerClock {
	#best: Sample | undefined;

	/**
	 * @param time the server's time in a response
	 * @param receivedAt when the response was received, in milliseconds of `performance.now()`
	 */
	addSample(time: number, receivedAt: number): void {
		const isOld = this.#best !== undefined && receivedAt - this.#best.receivedAt > maxBestSampleAgeMs;
		if (isOld || time >= (this.atLeast(receivedAt) ?? time)) this.#best = { ahead: time - receivedAt, receivedAt };
	}

	/** The bound, in milliseconds since the epoch. Undefined without a recent sample. */
	atLeast(now: number): number | undefined {
		if (this.#best === undefined || now - this.#best.receivedAt > maxSampleAgeMs) return undefined;
		return now + this.#best.ahead - (now - this.#best.receivedAt) * drift;
	}

	/** The connection is closed, and the next one may lead to another server. */
	reset(): void {
		this.#best = undefined;
	}
}

/**
 * Finds out that this machine was paused: its monotonic clock stood still meanwhile, and the server's did not. It outlives a
 * connection, because a pause may end all of them. A server's clock that is set forward looks the same.
 */
export class PauseDetector {
	/** How far the server's clock was ahead of `performance.now()` at most, in milliseconds, at the last response. */
	#ahead = Number.POSITIVE_INFINITY;
	#receivedAt = 0;

	/**
	 * @param time the server's time in a response
	 * @param sentAt when its statement was sent, in milliseconds of `performance.now()`
	 * @param receivedAt when the response was received
	 * @returns whether this machine was paused since the sample before
	 */
	addSample(time: number, sentAt: number, receivedAt: number): boolean {
		const ahead = this.#ahead + (receivedAt - this.#receivedAt) * drift;
		const wasPaused = time - receivedAt > ahead + minPauseMs;
		this.#ahead = wasPaused ? time - sentAt : Math.min(ahead, time - sentAt);
		this.#receivedAt = receivedAt;
		return wasPaused;
	}
}
