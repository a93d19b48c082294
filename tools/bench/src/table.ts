import type { Comparison, Report, Target, Unit } from './report.js';
import type { Figures } from './statistics.js';

/** Below this CPU use the server was not the limit of a measurement. */
const busy = 0.85;

/** The result as a table for people. */
export function tableOf({ machine, settings, comparisons, repeated, failures, seconds }: Report): string {
	const head = ['scenario', 'figure', 'ours', 'baseline', '', 'ratio (min–max)', 'target', 'met', 'CPU a request'];
	const rows = comparisons.map((comparison) => rowOf(comparison));
	const notes = [
		...comparisons.flatMap(notesOf),
		...repeated,
		...(machine.data_in_memory
			? ['The database was in memory: fsync cost nothing, the figures of upserts are void.']
			: []),
		...(machine.load_average > machine.cores / 2
			? [`The machine was busy before the run (load ${machine.load_average}): run it again with nothing else running.`]
			: []),
		...(settings.profiled ? ['Our services ran with the profiler on: the figures are too low.'] : []),
	];
	return [
		...align([head, ...rows]),
		'',
		...failures.map(({ scenario, message }) => `FAILED  ${scenario}: ${message}`),
		...notes,
		`${settings.rounds} rounds of ${settings.seconds} s, loaded by ${settings.generator}; ${machine.cores} × ${machine.cpu}, Node.js ${machine.node}, PostgreSQL ${machine.postgresql}, ${seconds} s in all`,
		'',
	].join('\n');
}

function rowOf({ scenario, figure, unit, ours, baseline, ratio, target, met, cost }: Comparison): string[] {
	return [
		scenario,
		figure,
		amount(ours.median, unit),
		baseline === null ? '–' : amount(baseline.figures.median, unit),
		baseline?.name ?? '',
		ratio === null ? '–' : spread(ratio),
		target === null ? '–' : targetText(target, unit),
		met === null ? '–' : met ? 'yes' : 'NO',
		cost === null ? '–' : `${cost.ours.toFixed(1)} µs, × ${cost.ratio.toFixed(2)}`,
	];
}

function spread({ median, min, max, rounds }: Figures): string {
	return rounds.length === 1 ? median.toFixed(2) : `${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`;
}

function amount(value: number, unit: Unit): string {
	const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
	const number = value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
	return unit === '/s' ? `${number}/s` : `${number} ${unit}`;
}

function targetText({ of, atLeast, atMost }: Target, unit: Unit): string {
	const limit = atLeast === undefined ? `≤ ${atMost}` : `≥ ${atLeast}`;
	return of === 'ours' ? `${limit} ${unit}` : of === 'cost' ? `CPU ${limit}` : limit;
}

/** Says where the generator was the limit instead of a server. There both servers look more alike than they are. */
function notesOf({ scenario, figure, cpu, baseline, notes }: Comparison): string[] {
	const lines = notes.length > 0 ? [`${scenario}: ${notes.join(', ')}.`] : [];
	const idle = baseline?.cpu?.server ?? 1;
	if (figure === 'throughput' && cpu !== null && baseline?.cpu && idle < busy && baseline.cpu.generator > busy) {
		lines.push(
			`${scenario}: the load generator was the limit of "${baseline.name}" (server ${percent(idle)} of a core, ours ${percent(cpu.server ?? 1)}).`,
		);
	}
	return lines;
}

const percent = (part: number) => `${Math.round(part * 100)} %`;

/** Pads the cells of rows, so that columns line up. */
export function align(rows: string[][]): string[] {
	const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
	return rows.map((row) =>
		row
			.map((text, column) => text.padEnd(widths[column] ?? 0))
			.join('  ')
			.trimEnd(),
	);
}
