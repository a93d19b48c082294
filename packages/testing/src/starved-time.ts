import { starvedMsOf, stolenMsIn } from './proc.js';

/** When something began and ended, in milliseconds of `performance.now()`. */
export interface Time {
	begun: number;
	ended: number;
}

/** What a busy machine excuses: time in which a process could run, and the kernel or the hypervisor gave it no processor. */
export interface StarvedTime {
	/** Milliseconds between these two moments that the machine took from the most delayed of the processes. */
	during(time: Time): number;
	/** The milliseconds that remain. */
	own(time: Time): number;
	stop(): void;
}

/** A look at the account of the kernel: milliseconds since each process, and each processor, was started. */
interface Look {
	at: number;
	waited: ReadonlyMap<number, number>;
	stolen: readonly number[];
}

/** Milliseconds between two looks. */
const intervalMs = 20;

/**
 * Keeps account of it until `stop`. What a process does itself, however long, is never in it. The times of several processes
 * are not added: the work of one would be excused by others that wait for its end.
 *
 * @param pids the processes that are examined now, beside the test itself
 */
export function watchStarvedTime(pids: () => readonly number[]): StarvedTime {
	const look = (): Look => ({
		at: performance.now(),
		waited: new Map([process.pid, ...pids()].map((pid) => [pid, starvedMsOf(pid)])),
		stolen: stolenMsIn(),
	});
	const first = look();
	const looks = [first];
	let last = first;
	const lookAgain = () => {
		last = look();
		looks.push(last);
	};
	const timer = setInterval(lookAgain, intervalMs);
	const during = ({ begun, ended }: Time) => {
		if (last.at < ended) lookAgain();
		const before = looks.findLast(({ at }) => at <= begun) ?? first;
		const after = looks.find(({ at }) => at >= ended) ?? last;
		const waited = [...after.waited].map(([pid, ms]) => ms - (before.waited.get(pid) ?? 0));
		// In the account of the kernel this time belongs to the process that had the processor before.
		const stolen = after.stolen.map((ms, index) => ms - (before.stolen[index] ?? 0));
		return Math.max(...waited) + Math.max(...stolen);
	};
	return {
		during,
		own: (time) => Math.max(0, time.ended - time.begun - during(time)),
		stop: () => clearInterval(timer),
	};
}
