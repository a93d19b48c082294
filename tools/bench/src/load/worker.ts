/** The load process: carries out one order, after a warm-up, and reports the result. */
import { quantile } from '../statistics.js';
import { loadBigAnswers } from './big-answers.js';
import type { LoadMessage, LoadOrder } from './order.js';
import { loadSmallAnswers } from './small-answers.js';

/** From so many bytes on, an answer is big. */
const big = 65_536;

process.once('message', (order: LoadOrder) => {
	void work(order).catch((error: unknown) => {
		tell({ failure: error instanceof Error ? error.message : String(error) });
	});
});
process.once('disconnect', () => process.exit(0));

async function work(order: LoadOrder): Promise<void> {
	const run = order.bytes < big ? loadSmallAnswers : loadBigAnswers;
	await run(order, order.warmUpSeconds);
	tell({ measuring: true });
	const { latencies, ...result } = await run(order, order.seconds);
	if (latencies.length === 0) throw new Error(`nothing was answered whole within ${order.seconds} s`);
	const sorted = Float64Array.from(latencies).sort();
	tell({ result: { ...result, latency: { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) } } });
}

function tell(message: LoadMessage): void {
	process.send?.(message);
}
