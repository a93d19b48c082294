import { runChild } from '../child.js';
import type { Lifetime } from '../lifetime.js';
import type { Measurement } from '../rounds.js';
import type { LoadMessage, LoadOrder } from './order.js';

/**
 * Loads a server from a separate process.
 *
 * @throws Error when a response had an unexpected status, or none came
 */
export async function load(lifetime: Lifetime, order: LoadOrder): Promise<Measurement> {
	const result = await runChild(lifetime, 'load/worker', order, (message: LoadMessage) => {
		if ('failure' in message) throw new Error(message.failure);
		return message.result;
	});
	const { answers, seconds, latency, cpuSeconds, windows } = result;
	const served = windows.reduce((sum, window) => sum + window.answers, 0);
	const used = windows.reduce((sum, window) => sum + window.cpuSeconds, 0);
	return {
		perSecond: answers / seconds,
		latency,
		cpu: {
			server: served === 0 ? null : (used / served) * (answers / seconds),
			generator: cpuSeconds / seconds,
		},
		windows,
	};
}
