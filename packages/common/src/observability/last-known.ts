import { withDeadline } from '../process/with-deadline.js';

/** A collection of metrics waits no longer for one of them: it must be done within seconds. */
const maxWaitMs = 250;

/**
 * Reads a value each time that it is asked for; where that takes too long, returns the one that was read last.
 *
 * @param read must not reject; it is not called again while it is under way
 */
export function lastKnown<Value>(read: () => Promise<Value>, initial: Value): () => Promise<Value> {
	let known = initial;
	let reading: Promise<void> | undefined;
	return async () => {
		reading ??= read().then((value) => {
			known = value;
			reading = undefined;
		});
		await withDeadline(reading, maxWaitMs);
		return known;
	};
}
