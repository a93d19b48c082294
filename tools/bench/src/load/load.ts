import type { Lifetime } from '../lifetime.js';
import type { Measurement } from '../rounds.js';
import { loadByAutocannon } from './autocannon.js';
import { findWrk, loadByWrk } from './wrk.js';

/** What the load generator should do. */
export interface LoadOrder {
	/** The server's process, whose CPU use is measured meanwhile. */
	pid: number;
	/** The server's URL, without a path. */
	url: string;
	method: 'GET' | 'POST';
	headers: Record<string, string>;
	/** The requests to send, in turn and repeatedly. */
	requests: { path: string; body?: string }[];
	connections: number;
	warmUpSeconds: number;
	seconds: number;
	/** Every response must have this status. */
	status: number;
	/** The length of a response body. */
	bytes: number;
}

/** A short part of a run. */
export interface CpuWindow {
	responses: number;
	/** CPU seconds that the server used. */
	cpuSeconds: number;
}

/** One run. */
export interface LoadResult {
	/** The number of responses. */
	responses: number;
	/** The latency of a single request, in milliseconds. */
	latency: { p50: number; p99: number };
	seconds: number;
	/** CPU seconds that the generator itself used. */
	cpuSeconds: number;
	/** Empty where the system does not report CPU use. */
	windows: CpuWindow[];
}

/**
 * Loads a server, after a warm-up.
 *
 * @throws Error when a response had an unexpected status, or none came
 */
export async function load(lifetime: Lifetime, order: LoadOrder): Promise<Measurement> {
	const wrk = findWrk();
	const run = (seconds: number): Promise<LoadResult> =>
		wrk === undefined ? loadByAutocannon(order, seconds) : loadByWrk(lifetime, wrk, order, seconds);
	await run(order.warmUpSeconds);
	const { responses, seconds, latency, cpuSeconds, windows } = await run(order.seconds);
	const served = windows.reduce((sum, window) => sum + window.responses, 0);
	const used = windows.reduce((sum, window) => sum + window.cpuSeconds, 0);
	const server = served === 0 ? null : (used / served) * (responses / seconds);
	return { perSecond: responses / seconds, latency, cpu: { server, generator: cpuSeconds / seconds }, windows };
}
