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
		const durations = taken.map(({ duration }) => duration).sort((a, b) => a - b);
		/** Of all control requests before the one with this index. A test may ask for tens of thousands of times. */
		const delaysBefore = [0];
		for (const { duration } of taken) delaysBefore.push((delaysBefore.at(-1) ?? 0) + Math.max(0, duration - usualMs));
		const starvedAt = (index: number) => taken[index]?.starved ?? first;
		const during = (begun: number, ended: number) => {
			const from = indexOfFirst(taken, (each) => each.ended > begun);
			const to = indexOfFirst(taken, (each) => each.begun >= ended);
			const late = (delaysBefore[to] ?? 0) - (delaysBefore[from] ?? 0);
			return Math.max(late, starvedAt(to - 1) - starvedAt(from - 1));
		};
		return {
			during,
			longest: (times) => Math.max(0, ...times.map(({ begun, ended }) => ended - begun - during(begun, ended))),
			slowest: durations.at(-1) ?? 0,
			slowdown: Math.max(1, (durations[Math.floor(durations.length / 2)] ?? 0) / usualMs),
		};
	};
}

/** The index of the first element that meets a condition which all later ones meet too; the length if none does. */
function indexOfFirst<Element>(elements: readonly Element[], condition: (element: Element) => boolean): number {
	let [from, to] = [0, elements.length];
	while (from < to) {
		const middle = (from + to) >> 1;
		if (condition(elements[middle] as Element)) to = middle;
		else from = middle + 1;
	}
	return from;
}
