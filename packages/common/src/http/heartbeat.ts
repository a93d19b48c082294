const beatIntervalMs = 250;

/**
 * What waited in sockets while the process stood still is read within so many beats, so within a second: in each turn of its loop
 * Node.js takes only one connection from the backlog, and reads it a turn later.
 */
const trustedBeats = 5;

/**
 * Says for how long a request that is read now may have waited. A process that stood still (SIGSTOP, a paused container, a host that swaps) does
 * not know for how long the requests in its sockets have waited: their callers may have given them up, and have saved newer values
 * through another process. So the time of a write counts from the last beat that is at least a second old, not from the moment
 * at which it is read. With the deadline of the services, it ends before its caller may send newer values (docs/bot.md).
 */
export class Heartbeat {
	readonly #clock: () => number;
	/** When the event loop was last seen running, the earliest first, in milliseconds of the clock. */
	readonly #beats: number[];
	readonly #timer: NodeJS.Timeout;

	/** @param clock monotonic milliseconds, which continue while the process is stopped */
	constructor(clock: () => number) {
		this.#clock = clock;
		this.#beats = new Array<number>(trustedBeats).fill(clock());
		this.#timer = setInterval(() => {
			this.#beats.shift();
			this.#beats.push(clock());
		}, beatIntervalMs).unref();
	}

	/** For how long a request that is read now may have waited, in milliseconds; 0 while the process runs. */
	get lateMs(): number {
		return Math.max(0, this.#clock() - (this.#beats[0] as number) - trustedBeats * beatIntervalMs);
	}

	stop(): void {
		clearInterval(this.#timer);
	}
}
