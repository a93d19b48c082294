import { cpuSecondsOf } from '@contacts/testing/proc.js';
import { quantile } from '../statistics.js';
import type { CpuWindow, LoadResult } from './order.js';

/** Short enough that nothing else runs on the machine during some windows, and long enough for at least a hundred responses. */
const windowMs = 250;

/**
 * Measures the server's CPU use per response, window by window.
 *
 * @param answers the number of responses so far
 * @returns a function that stops it and returns the windows
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

/** @throws Error for an empty array */
export function latencyOf(milliseconds: number[]): LoadResult['latency'] {
	if (milliseconds.length === 0) throw new Error('nothing was answered whole');
	const sorted = Float64Array.from(milliseconds).sort();
	return { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) };
}
