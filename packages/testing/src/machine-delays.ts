import { setTimeout as delay } from 'node:timers/promises';
import { starvedMsOf } from './proc.js';

/** When something began and ended, in milliseconds of `performance.now()`. */
export interface Time {
	begun: number;
	ended: number;
}

/** What the control requests showed, so that a limit can be strict and a busy machine does not exceed it. */
export interface MachineDelays {
	/** The milliseconds by which the machine delayed a request between these two moments of `performance.now()`. */
	during(begun: number, ended: number): number;
	/** The duration of the longest of these times in milliseconds, without the delays of the machine. */
	longest(times: readonly Time[]): number;
	/** The duration of the slowest control request, in milliseconds. */
	slowest: number;
	/** How many times as long as usual a control request took, at least 1. */
	slowdown: number;
}

/** More than a control request takes on a machine that is not busy. */
const usualMs = 10;

/** The time between two control requests. */
const controlIntervalMs = 5;

/**
 * Repeats a control request that needs nothing of what a test examines, one after the other, until the returned function is
 * called. What it takes longer than usual is a delay of the processor, of this process, or of anything else that both kinds
 * of requests wait for.
 *
 * @param pid the process that a test examines: the time in which the kernel let it wait for a processor is a delay, too
 */
export function watchDelays(control: () => Promise<unknown>, pid?: number): () => Promise<MachineDelays> {
	const starved = () => (pid === undefined ? 0 : starvedMsOf(pid));
	const first = starved();
	const taken: (Time & { duration: number; starved: number })[] = [];
	let running = true;
	const watching = (async () => {
		let begun = performance.now();
		while (running) {
			await control();
			await delay(controlIntervalMs);
			// Without a gap between two of them, because the machine may pause then too.
			const ended = performance.now();
			taken.push({ begun, ended, duration: ended - begun - controlIntervalMs, starved: starved() });
			begun = ended;
		}
	})();
	return async () => {
		running = false;
		await watching;
		const late = taken.filter(({ duration }) => duration > usualMs);
		const durations = taken.map(({ duration }) => duration).sort((a, b) => a - b);
		const starvedBetween = (begun: number, ended: number) => {
			const after = taken.find((each) => each.ended >= ended) ?? taken.at(-1);
			const before = taken.findLast((each) => each.ended <= begun);
			return (after?.starved ?? first) - (before?.starved ?? first);
		};
		const lateBetween = (begun: number, ended: number) =>
			late
				.filter((each) => each.ended > begun && each.begun < ended)
				.reduce((sum, { duration }) => sum + duration - usualMs, 0);
		const during = (begun: number, ended: number) => Math.max(lateBetween(begun, ended), starvedBetween(begun, ended));
		return {
			during,
			longest: (times) => Math.max(0, ...times.map(({ begun, ended }) => ended - begun - during(begun, ended))),
			slowest: durations.at(-1) ?? 0,
			slowdown: Math.max(1, (durations[Math.floor(durations.length / 2)] ?? 0) / usualMs),
		};
	};
}
