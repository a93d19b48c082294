/** What `--json` prints. */
export interface Result {
	/** What ours is compared with. */
	baseline: string;
	/** Of each side; of a soak, its cycles. */
	rounds: number;
	/** Length of one measurement. */
	seconds: number;
	rows: Row[];
}

export interface Row {
	/** A scenario of the load, or a service. */
	scenario: string;
	figure: string;
	unit: string;
	/** Medians. */
	ours: number;
	baseline: number;
	/** The median of ours divided by the baseline's in each pair: the speed of a machine changes from pair to pair. */
	ratio: number;
	/** In how many of `pairs` ours was higher: half of them where both are equal. */
	higher: number;
	pairs: number;
}

export interface Figures {
	/** Adds a measured figure. NaN, for what the system does not report, is left out. */
	add(side: 'ours' | 'baseline', scenario: string, figure: string, unit: string, value: number): void;
	rows(): Row[];
}

export function createFigures(): Figures {
	const all = new Map<string, { scenario: string; figure: string; unit: string; ours: number[]; baseline: number[] }>();
	return {
		add(side, scenario, figure, unit, value) {
			if (Number.isNaN(value)) return;
			const key = `${scenario} ${figure}`;
			const row = all.get(key) ?? { scenario, figure, unit, ours: [], baseline: [] };
			row[side].push(value);
			all.set(key, row);
		},
		rows: () =>
			[...all.values()].map(({ ours, baseline, ...row }) => {
				const ratios = baseline.flatMap((value, index) => (ours[index] === undefined ? [] : ours[index] / value));
				return {
					...row,
					ours: median(ours),
					baseline: median(baseline),
					ratio: median(ratios),
					higher: ratios.filter((ratio) => ratio > 1).length,
					pairs: ratios.length,
				};
			}),
	};
}

function median(values: readonly number[]): number {
	const sorted = values.toSorted((a, b) => a - b);
	const middle = (sorted.length - 1) / 2;
	return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2;
}

/** The result as a table for people. */
export function tableOf({ baseline, rows, rounds, seconds }: Result): string {
	const cells = [
		['', '', 'ours', 'baseline', '', 'ratio', 'ours higher'],
		...rows.map(({ scenario, figure, unit, ours, baseline, ratio, higher, pairs }) => [
			scenario,
			figure,
			amount(ours),
			amount(baseline),
			unit,
			ratio.toFixed(2),
			`${higher} of ${pairs}`,
		]),
	];
	const width = (column: number) => Math.max(...cells.map((row) => row[column]?.length ?? 0));
	const isNumber = (column: number) => [2, 3, 5].includes(column);
	const lines = cells.map((row) =>
		row
			.map((text, column) => (isNumber(column) ? text.padStart(width(column)) : text.padEnd(width(column))))
			.join('  ')
			.trimEnd(),
	);
	const each = Number(seconds.toFixed(2));
	const settings = `rounds: ${rounds}, measurements of ${each} s, Node.js ${process.version}`;
	return `${lines.join('\n')}\n\nMedians. Baseline: ${baseline}; ${settings}; ${Math.round(process.uptime())} s in all\n`;
}

function amount(value: number): string {
	return value.toLocaleString('en', { maximumFractionDigits: value >= 100 ? 0 : 1 });
}
