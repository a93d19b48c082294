import { cpuSecondsOf } from '@contacts/testing/proc.js';
import { quantile } from '../statistics.js';
import type { CpuWindow, LoadResult } from './order.js';

/** Short enough that some pass while nothing else runs on the machine, and of some hundred answers at least. */
const windowMs = 250;

/**
 * Watches what answers cost the server, window by window.
 *
 * @param answers how many have come so far
 * @returns ends it, and returns the windows
 */
export function watchCosts(pid: number, answers: () => number): () => CpuWindow[] {
	const windows: CpuWindow[] = [];
	let before = { answers: answers(), cpu: cpuSecondsOf(pid) };
	const timer = setInterval(() => {
		const now = { answers: answers(), cpu: cpuSecondsOf(pid) };
		if (now.cpu !== undefined && before.cpu !== undefined && now.answers > before.answers)
			windows.push({ answers: now.answers - before.answers, cpuSeconds: now.cpu - before.cpu });
		before = now;
	}, windowMs);
	return () => {
		clearInterval(timer);
		return windows;
	};
}

/** @throws Error for none */
export function latencyOf(milliseconds: number[]): LoadResult['latency'] {
	if (milliseconds.length === 0) throw new Error('nothing was answered whole');
	const sorted = Float64Array.from(milliseconds).sort();
	return { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) };
}
