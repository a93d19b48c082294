/** The load process: carries out one order, after a warm-up, and reports the result. */
import { quantile } from '../statistics.js';
import { loadBigAnswers } from './big-answers.js';
import type { LoadMessage, LoadOrder, LoadResult } from './order.js';
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
	await run(order, order.warmUpSeconds);
	tell({ measuring: true });
	tell({ result: await run(order, order.seconds) });
}

async function run(order: LoadOrder, length: number): Promise<LoadResult> {
	const { latencies, seconds, cpuSeconds } = await (order.bytes < big ? loadSmallAnswers : loadBigAnswers)(
		order,
		length,
	);
	if (latencies.length === 0) throw new Error(`nothing was answered within ${length} s`);
	const sorted = Float64Array.from(latencies).sort();
	return {
		requests: latencies.length,
		seconds,
		latency: { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) },
		cpuSeconds,
	};
}

function tell(message: LoadMessage): void {
	process.send?.(message);
}
