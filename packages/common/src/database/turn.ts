import { DeadlineError } from './errors.js';
import type { Lane, Lanes } from './lanes.js';

/** A statement on its way through the queue. Times are milliseconds of `performance.now()`. */
export interface Turn {
	readonly asked: number;
	/** When its caller gets an answer, whatever it is. */
	readonly until: number;
	/** When it got a connection first. */
	begun?: number;
}

/**
 * Waits for a lane, which must be released.
 *
 * @param needed milliseconds that must be left then
 * @throws DeadlineError
 */
export async function takeTurn(lanes: Lanes, turn: Turn, needed = 0): Promise<Lane> {
	const lane = await lanes.acquire(turn.until - needed, turn.begun !== undefined);
	if (lane === undefined) throw new DeadlineError(turn.until - turn.asked, turn.begun !== undefined);
	turn.begun ??= performance.now();
	return lane;
}
