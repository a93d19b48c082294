import { type Figures, figuresOf, ratiosOf } from './statistics.js';

type Figure = 'throughput' | 'latency' | 'time' | 'first byte' | 'peak memory' | 'memory at rest';
export type Unit = '/s' | 'ms' | 'MiB';

/** The target of the ratio, of the ratio of costs, or of our own figure. */
export interface Target {
	of: 'ratio' | 'cost' | 'ours';
	atLeast?: number;
	atMost?: number;
}

/** The average number of busy cores during a measurement. Null where the system does not report it. */
export interface Cpu {
	server: number | null;
	generator: number;
}

/** One row of the table: one figure of a scenario, compared with one baseline. */
export interface Comparison {
	scenario: string;
	figure: Figure;
	unit: Unit;
	ours: Figures;
	/** Null: the figure has a target but no baseline. */
	baseline: { name: string; figures: Figures; cpu: Cpu | null } | null;
	/** Our figure divided by the baseline's, round by round. */
	ratio: Figures | null;
	target: Target | null;
	met: boolean | null;
	cpu: Cpu | null;
	/** CPU microseconds of the server for one request. `ratio` is ours divided by the baseline's. */
	cost: { ours: number; baseline: number; ratio: number } | null;
	/** What a reader should know about this measurement. */
	notes: string[];
}

export interface Failure {
	scenario: string;
	message: string;
}

/** What `--json` writes. */
export interface Report {
	version: 2;
	machine: {
		date: string;
		platform: string;
		cpu: string;
		cores: number;
		memory_mib: number;
		/** The load average of the minute before the run. */
		load_average: number;
		node: string;
		postgresql: string;
		postgresql_settings: Record<string, string>;
		/** Whether the database's folder is in memory, where fsync costs nothing. */
		data_in_memory: boolean;
	};
	settings: {
		rounds: number;
		seconds: number;
		warm_up_seconds: number;
		profiled: boolean;
		generator: 'wrk' | 'autocannon';
	};
	comparisons: Comparison[];
	/** Measurements that were made again, and why. */
	repeated: string[];
	failures: Failure[];
	seconds: number;
}

interface ComparisonInput {
	scenario: string;
	figure: Figure;
	unit: Unit;
	ours: readonly number[];
	baseline?: { name: string; values: readonly number[]; cpu?: Cpu | null; cost?: number | null };
	target?: Target;
	cpu?: Cpu | null;
	cost?: number | null;
	notes?: string[];
}

export function compare(input: ComparisonInput): Comparison {
	const { scenario, figure, unit, baseline, target = null, cpu = null, notes = [] } = input;
	const ours = figuresOf(input.ours);
	const ratio = baseline ? ratiosOf(input.ours, baseline.values) : null;
	const cost = costsOf(input);
	return {
		scenario,
		figure,
		unit,
		ours,
		baseline: baseline ? { name: baseline.name, figures: figuresOf(baseline.values), cpu: baseline.cpu ?? null } : null,
		ratio,
		target,
		met: target && isMet(target, { ratio: ratio?.median, cost: cost?.ratio, ours: ours.median }[target.of]),
		cpu,
		cost,
		notes,
	};
}

function costsOf({ cost, baseline }: ComparisonInput): Comparison['cost'] {
	if (cost == null || baseline?.cost == null) return null;
	return { ours: cost, baseline: baseline.cost, ratio: cost / baseline.cost };
}

/** Null where the system does not report CPU use. */
function isMet({ of, atLeast, atMost }: Target, value: number | undefined): boolean | null {
	if (value === undefined) return of === 'cost' ? null : false;
	return value >= (atLeast ?? -Infinity) && value <= (atMost ?? Infinity);
}
