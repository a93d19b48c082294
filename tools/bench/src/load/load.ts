import { runChild } from '../child.js';
import type { Lifetime } from '../lifetime.js';
import { cpuSecondsOf } from '../process-facts.js';
import type { Measurement } from '../rounds.js';
import type { LoadMessage, LoadOrder } from './order.js';

/**
 * Loads a server from a process of its own.
 *
 * @param pid the server's process, whose use of the CPU is measured beside
 * @throws Error when an answer had another status than the expected, or none came
 */
export async function load(lifetime: Lifetime, pid: number, order: LoadOrder): Promise<Measurement> {
	let cpuBefore: number | null = null;
	const { result, cpuAfter } = await runChild(lifetime, 'load/worker', order, (message: LoadMessage) => {
		if ('failure' in message) throw new Error(message.failure);
		if ('result' in message) return { result: message.result, cpuAfter: cpuSecondsOf(pid) };
		cpuBefore = cpuSecondsOf(pid);
		return undefined;
	});
	const server = cpuBefore === null || cpuAfter === null ? null : (cpuAfter - cpuBefore) / result.seconds;
	return {
		perSecond: result.answers / result.seconds,
		latency: result.latency,
		cpu: { server, generator: result.cpuSeconds / result.seconds },
	};
}
