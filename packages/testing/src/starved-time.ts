import { starvedMsOf } from './proc.js';

/** When something began and ended, in milliseconds of `performance.now()`. */
export interface Time {
	begun: number;
	ended: number;
}

/** What a busy machine excuses: time in which a process could run and the kernel gave it no processor. */
export interface StarvedTime {
	/** Milliseconds between these two moments for which the test, and the most delayed of the others, waited for a processor. */
	during(time: Time): number;
	stop(): void;
}

/** Milliseconds between two looks at the kernel's account. */
const intervalMs = 20;

/**
 * Keeps account of it until `stop`. What a process does itself, however long, is never in it.
 *
 * @param pids the processes that are examined now
 */
export function watchStarvedTime(pids: () => readonly number[]): StarvedTime {
	const account = new Map<number, number>();
	/** What was added since the last look. A process that is new counts from now on. */
	const added = (pid: number) => {
		const now = starvedMsOf(pid);
		const before = account.get(pid) ?? now;
		account.set(pid, now);
		return Math.max(0, now - before);
	};
	const looks = [{ at: performance.now(), sum: 0 }];
	const look = () => {
		const sum = (looks.at(-1)?.sum ?? 0) + added(process.pid) + Math.max(0, ...pids().map(added));
		looks.push({ at: performance.now(), sum });
	};
	look();
	const timer = setInterval(look, intervalMs);
	return {
		during({ begun, ended }) {
			look();
			const before = looks.findLast(({ at }) => at <= begun)?.sum ?? 0;
			return (looks.find(({ at }) => at >= ended)?.sum ?? looks.at(-1)?.sum ?? 0) - before;
		},
		stop: () => clearInterval(timer),
	};
}
