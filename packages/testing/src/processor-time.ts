import { cpuSecondsOf } from './proc.js';

/** Requests of one kind in a row. The cheapest of the rounds counts: something disturbed the others. */
const requestsPerRound = 10;
const rounds = 4;

/**
 * Returns the milliseconds of processor time that a process uses for each of these requests. The requests take turns, so
 * that whatever else the machine does concerns all of them.
 */
export async function processorMsOf(pid: number, requests: readonly (() => Promise<unknown>)[]): Promise<number[]> {
	const cheapest = requests.map(() => Number.POSITIVE_INFINITY);
	for (let round = 0; round < rounds; round++) {
		for (const [index, request] of requests.entries()) {
			const before = cpuSecondsOf(pid);
			for (let count = 0; count < requestsPerRound; count++) await request();
			const ms = ((cpuSecondsOf(pid) - before) * 1000) / requestsPerRound;
			cheapest[index] = Math.min(cheapest[index] as number, ms);
		}
	}
	return cheapest;
}
