import { withDeadline } from '../process/with-deadline.js';

/** The timeout for one metric. A collection of metrics must finish within seconds. */
const maxWaitMs = 250;

/**
 * Reads a value at each call. If that takes too long, returns the last known value.
 *
 * @param read must not reject; it is not called again while it runs
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
