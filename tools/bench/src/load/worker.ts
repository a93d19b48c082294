/** The load process: runs one order after a warm-up and reports the result. */
import { loadBigAnswers } from './big-answers.js';
import type { LoadMessage, LoadOrder, LoadResult } from './order.js';
import { loadSmallAnswers } from './small-answers.js';
import { findWrk, loadByWrk } from './wrk.js';

/** A response of this many bytes or more is big. */
const big = 65_536;

process.once('message', (order: LoadOrder) => {
	void work(order).catch((error: unknown) => {
		tell({ failure: error instanceof Error ? error.message : String(error) });
	});
});
process.once('disconnect', () => process.exit(0));

async function work(order: LoadOrder): Promise<void> {
	const wrk = findWrk();
	const run = (seconds: number): Promise<LoadResult> => {
		if (order.bytes >= big) return loadBigAnswers(order, seconds);
		return wrk === undefined ? loadSmallAnswers(order, seconds) : loadByWrk(wrk, order, seconds);
	};
	await run(order.warmUpSeconds);
	tell({ result: await run(order.seconds) });
}

function tell(message: LoadMessage): void {
	process.send?.(message);
}
