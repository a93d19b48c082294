import type { CpuWindow } from './load/order.js';
import type { Cpu } from './report.js';
import { cheapestQuarter, median } from './statistics.js';

/** One measurement of one server. */
export interface Measurement {
	perSecond: number;
	/** In milliseconds. */
	latency: { p50: number; p99: number };
	cpu: Cpu | null;
	/** Short parts of the measurement, each with the cost of a request. */
	windows: CpuWindow[];
}

export interface Subject<T> {
	name: string;
	measure(): Promise<T>;
}

/**
 * Measures all subjects in every round, one at a time, and reverses the order from round to round. So none is always
 * first after a pause or last on a warm machine.
 *
 * @returns the measurements of each subject, by round
 */
export async function interleave<T, Names extends string>(
	subjects: Record<Names, Subject<T>>,
	rounds: number,
	progress: (text: string) => void,
): Promise<Record<Names, T[]>> {
	const names = Object.keys(subjects) as Names[];
	const measured = Object.fromEntries(names.map((name) => [name, [] as T[]])) as Record<Names, T[]>;
	for (let round = 1; round <= rounds; round++) {
		for (const name of round % 2 === 1 ? names : names.toReversed()) {
			progress(`round ${round} of ${rounds}: ${subjects[name].name}`);
			measured[name].push(await subjects[name].measure());
		}
	}
	return measured;
}

/** The median CPU use. */
export function cpuOf(measurements: readonly Measurement[]): Cpu | null {
	const cpus = measurements.flatMap(({ cpu }) => cpu ?? []);
	if (cpus.length === 0) return null;
	const servers = cpus.flatMap(({ server }) => server ?? []);
	return {
		server: servers.length === 0 ? null : median(servers),
		generator: median(cpus.map(({ generator }) => generator)),
	};
}

/**
 * CPU microseconds of the server for one request. Null where the system does not report CPU use. It averages the cheapest
 * quarter of all windows: other processes on the machine make a request more expensive, never cheaper.
 */
export function costOf(measurements: readonly Measurement[]): number | null {
	const costs = measurements.flatMap(({ windows }) => windows.map(({ cpuSeconds, answers }) => cpuSeconds / answers));
	return costs.length === 0 ? null : cheapestQuarter(costs) * 1e6;
}
