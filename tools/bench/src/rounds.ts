import type { CpuWindow } from './load/order.js';
import type { Cpu } from './report.js';
import { cheapestQuarter, median } from './statistics.js';

/** One measurement of one server. */
export interface Measurement {
	perSecond: number;
	/** In milliseconds. */
	latency: { p50: number; p99: number };
	cpu: Cpu | null;
	/** Short parts of it, of which each tells the cost of a request. */
	windows: CpuWindow[];
}

export interface Subject<T> {
	name: string;
	measure(): Promise<T>;
}

/**
 * Measures all subjects in every round, one at a time, in an order that turns round from one to the next: none is always
 * the first after a pause or the last on a warm machine.
 *
 * @returns the measurements of each subject, by the rounds
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

/** The median use of the CPU. */
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
 * Microseconds of a core that the server uses for a request; null where the system does not tell. It is that of the cheapest
 * quarter of all windows: whatever else runs on the machine makes a request dearer, and never cheaper.
 */
export function costOf(measurements: readonly Measurement[]): number | null {
	const costs = measurements.flatMap(({ windows }) => windows.map(({ cpuSeconds, answers }) => cpuSeconds / answers));
	return costs.length === 0 ? null : cheapestQuarter(costs) * 1e6;
}
