import { type Figures, figuresOf, median, ratiosOf } from './statistics.js';

export type Figure = 'throughput' | 'latency' | 'time' | 'first byte' | 'peak memory' | 'memory at rest';
export type Unit = '/s' | 'ms' | 'MiB';

/** What must hold of the ratio, or of our own figure. */
export interface Target {
	of: 'ratio' | 'ours';
	atLeast?: number;
	atMost?: number;
}

/** Cores that were busy, on average over a measurement; null where the system doesn't tell. */
export interface Cpu {
	server: number | null;
	generator: number;
}

/** One row of the table: one figure of a scenario, compared with one reference. */
export interface Comparison {
	scenario: string;
	figure: Figure;
	unit: Unit;
	ours: Figures;
	/** Null: the figure has only a target of its own. */
	reference: { name: string; figures: Figures; cpu: Cpu | null } | null;
	/** Ours by the reference's, round by round. */
	ratio: Figures | null;
	target: Target | null;
	met: boolean | null;
	cpu: Cpu | null;
	/** Ours by the reference's time of the server's CPU for a request. Other programs on the machine disturb it least. */
	cost_ratio: number | null;
	/** What a reader should know of this very measurement. */
	notes: string[];
}

export interface Failure {
	scenario: string;
	message: string;
}

/** What `--json` writes. */
export interface Report {
	version: 1;
	machine: {
		date: string;
		platform: string;
		cpu: string;
		cores: number;
		memory_mib: number;
		/** Processes that wanted a core in the minute before the run, on average. */
		load_average: number;
		node: string;
		postgresql: string;
		postgresql_settings: Record<string, string>;
		/** Whether the database's folder is in memory, where fsync costs nothing. */
		data_in_memory: boolean;
	};
	settings: { rounds: number; seconds: number; warm_up_seconds: number; profiled: boolean };
	comparisons: Comparison[];
	failures: Failure[];
	seconds: number;
}

export interface ComparisonInput {
	scenario: string;
	figure: Figure;
	unit: Unit;
	ours: readonly number[];
	reference?: { name: string; values: readonly number[]; cpu?: Cpu | null };
	target?: Target;
	cpu?: Cpu | null;
	notes?: string[];
}

export function compare(input: ComparisonInput): Comparison {
	const { scenario, figure, unit, reference, target = null, cpu = null, notes = [] } = input;
	const ours = figuresOf(input.ours);
	const ratio = reference ? ratiosOf(input.ours, reference.values) : null;
	return {
		scenario,
		figure,
		unit,
		ours,
		reference: reference
			? { name: reference.name, figures: figuresOf(reference.values), cpu: reference.cpu ?? null }
			: null,
		ratio,
		target,
		met: target && isMet(target, target.of === 'ratio' ? ratio : ours),
		cpu,
		cost_ratio: figure === 'throughput' ? costRatio(input) : null,
		notes,
	};
}

function costRatio({ ours, cpu, reference }: ComparisonInput): number | null {
	const mine = cpu?.server ?? null;
	const other = reference?.cpu?.server ?? null;
	if (mine === null || other === null || other === 0 || reference === undefined) return null;
	return mine / median(ours) / (other / median(reference.values));
}

function isMet({ atLeast, atMost }: Target, figures: Figures | null): boolean {
	if (figures === null) return false;
	return figures.median >= (atLeast ?? -Infinity) && figures.median <= (atMost ?? Infinity);
}
