import type { Bench } from './bench.js';
import type { CpuWindow } from './load/load.js';
import { type Comparison, type Cpu, compare, type Target } from './report.js';
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

/** A measurement that fails is repeated: a disk that pauses for half a second makes a service refuse requests. */
const maxAttempts = 3;

/**
 * Measures all subjects in every round, one at a time, and reverses the order from round to round. So none is always
 * first after a pause or last on a warm machine.
 *
 * @returns the measurements of each subject, by round
 * @throws Error of a measurement that failed three times
 */
export async function interleave<T, Names extends string>(
	{ progress, repeated, lifetime }: Pick<Bench, 'progress' | 'repeated' | 'lifetime'>,
	scenario: string,
	rounds: number,
	subjects: Record<Names, Subject<T>>,
): Promise<Record<Names, T[]>> {
	const names = Object.keys(subjects) as Names[];
	const measured = Object.fromEntries(names.map((name) => [name, [] as T[]])) as Record<Names, T[]>;
	async function measure(subject: Subject<T>, attempt = 1): Promise<T> {
		try {
			return await subject.measure();
		} catch (error) {
			if (attempt === maxAttempts || lifetime.ending) throw error;
			repeated.push(`${scenario}: "${subject.name}" was measured again, because ${(error as Error).message}.`);
			progress(repeated.at(-1) ?? '');
			return measure(subject, attempt + 1);
		}
	}
	for (let round = 1; round <= rounds; round++) {
		for (const name of round % 2 === 1 ? names : names.toReversed()) {
			progress(`${scenario}, round ${round} of ${rounds}: ${subjects[name].name}`);
			measured[name].push(await measure(subjects[name]));
		}
	}
	return measured;
}

/** Compares the throughput and the cost of our service with those of another server. */
export function compareLoads(
	scenario: string,
	ours: Measurement[],
	baseline: { name: string; measured: Measurement[] },
	{ target, notes = [] }: { target?: Target; notes?: string[] } = {},
): Comparison {
	const speeds = (measurements: Measurement[]) => measurements.map(({ perSecond }) => perSecond);
	const { name, measured } = baseline;
	return compare({
		scenario,
		figure: 'throughput',
		unit: '/s',
		ours: speeds(ours),
		baseline: { name, values: speeds(measured), cpu: cpuOf(measured), cost: costOf(measured) },
		...(target ? { target } : {}),
		cpu: cpuOf(ours),
		cost: costOf(ours),
		notes,
	});
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
	const costs = measurements.flatMap(({ windows }) =>
		windows.map(({ cpuSeconds, responses }) => cpuSeconds / responses),
	);
	return costs.length === 0 ? null : cheapestQuarter(costs) * 1e6;
}
