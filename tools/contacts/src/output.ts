import cliTruncate from 'cli-truncate';
import stringWidth from 'string-width';
import { onOutput, styleState } from './style.js';

export interface OutputOptions {
	json?: boolean;
}

/** Between two columns of a table. */
const gap = '  ';

/** A column is not made narrower than this: nothing could be read in it. */
const narrowest = 5;

/**
 * Prints records: as a JSON array, or as a table with the fields' names as its head. On a terminal the table fits its width:
 * what is too long ends in an ellipsis. Elsewhere nothing is cut off.
 */
export function printRecords(records: readonly object[], columns: string[], { json = false }: OutputOptions): void {
	if (json) {
		process.stdout.write(`${JSON.stringify(records, null, 2)}\n`);
		return;
	}
	const rows = [
		columns,
		...records.map((record) => columns.map((column) => cell((record as Record<string, unknown>)[column]))),
	];
	const natural = columns.map((_, index) => Math.max(...rows.map((row) => stringWidth(row[index] ?? ''))));
	const widths = fitWidths(natural, (process.stdout.isTTY && process.stdout.columns) || Number.POSITIVE_INFINITY);
	for (const [number, row] of rows.entries()) {
		const cells = row.map((text, index) => place(text, widths[index] ?? 0));
		const last = cells.length - 1;
		cells[last] = cells[last]?.trimEnd() ?? '';
		const line = cells.map((text) => (number === 0 ? text : styleState(text))).join(gap);
		process.stdout.write(`${number === 0 ? onOutput('bold', line) : line}\n`);
	}
}

/** The widths, the widest made narrower until all together fit into the line. */
export function fitWidths(natural: readonly number[], line: number): number[] {
	const widths = [...natural];
	let excess = widths.reduce((sum, width) => sum + width, gap.length * (widths.length - 1)) - line;
	for (; excess > 0; excess--) {
		const widest = widths.indexOf(Math.max(...widths));
		if (widest === -1 || (widths[widest] as number) <= narrowest) break;
		widths[widest] = (widths[widest] as number) - 1;
	}
	return widths;
}

function place(text: string, width: number): string {
	const short = cliTruncate(text, width);
	return short + ' '.repeat(Math.max(0, width - stringWidth(short)));
}

function cell(value: unknown): string {
	if (value === null || value === undefined) return '-';
	const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
	// A line break would break the table, and an escape sequence could do anything to the terminal.
	return text.replace(/\p{Cc}/gu, '\uFFFD');
}

/** Prints one record: as JSON, or as a sentence. */
export function printResult(record: object, sentence: string, { json = false }: OutputOptions): void {
	process.stdout.write(json ? `${JSON.stringify(record)}\n` : `${sentence}\n`);
}
