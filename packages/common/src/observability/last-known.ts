/** Milliseconds that somebody who looks is kept waiting. */
const patience = 250;

/**
 * Asks each time, and gives the answer; where that takes longer than a moment, what was last known. Whoever looks at many
 * figures is not kept waiting by one of them.
 *
 * @param ask must not reject; it is not called again while it asks
 */
export function lastKnown<Answer>(ask: () => Promise<Answer>, first: Answer): () => Promise<Answer> {
	let known = first;
	let asking: Promise<void> | undefined;
	return async () => {
		asking ??= ask().then((answer) => {
			known = answer;
			asking = undefined;
		});
		let timer: NodeJS.Timeout | undefined;
		const enough = new Promise<void>((resolve) => {
			timer = setTimeout(resolve, patience);
		});
		await Promise.race([asking, enough]);
		clearTimeout(timer);
		return known;
	};
}
