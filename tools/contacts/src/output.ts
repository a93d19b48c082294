import type { Writable } from 'node:stream';
import { styleText } from 'node:util';
import { escapeControls, escapeJsonLines } from '@contacts/common/observability/escape-controls.js';
import { streams } from './streams.js';
import { type Style, styleOfState } from './style.js';

/** A part of a line in a colour, if the stream is a terminal with colours (NO_COLOR, FORCE_COLOR). */
export interface Styled {
	style: Style;
	text: string;
}

/** One line, of one or several parts. */
export type Line = string | readonly (string | Styled)[];

export interface OutputOptions {
	json?: boolean;
}

/**
 * Prints lines on standard output. All output for people passes through here, or below for standard error:
 * a control character in it is shown as an escape, so that nothing from a file, the portal or the database reaches the
 * terminal as a command, or looks like a line of ours.
 */
export function print(...lines: Line[]): void {
	streams().stdout.write(render(lines, streams().stdout));
}

/** Prints lines on standard error. */
export function printNote(...lines: Line[]): void {
	streams().stderr.write(render(lines, streams().stderr));
}

/** Prints the command's own output for a program, such as a script, without escaping. */
export function printScript(text: string): void {
	streams().stdout.write(text);
}

/** The output of the command-line library, for help and errors. An error may contain typed text. */
export const commanderOutput = {
	writeOut: (text: string) => void streams().stdout.write(text),
	writeErr: (text: string) => void streams().stderr.write(text),
	outputError: (text: string, write: (text: string) => void) => write(escapeControls(text, { keep: '\n' })),
};

function printJson(json: string): void {
	streams().stdout.write(escapeJsonLines(`${json}\n`));
}

function render(lines: readonly Line[], stream: Writable): string {
	const part = (given: string | Styled) =>
		typeof given === 'string' ? escapeControls(given) : styleText(given.style, escapeControls(given.text), { stream });
	return lines.map((line) => `${typeof line === 'string' ? part(line) : line.map(part).join('')}\n`).join('');
}

/** Between two columns of a table. */
const gap = '  ';

/** The minimum width of a column, so that it stays readable. */
const narrowest = 5;

/**
 * Prints records: as a JSON array, or as a table with the fields' names as its head. On a terminal the table fits its width:
 * a longer value ends in an ellipsis. Elsewhere nothing is cut off.
 */
export async function printRecords(
	records: readonly object[],
	columns: string[],
	{ json = false }: OutputOptions,
): Promise<void> {
	if (json) {
		printJson(JSON.stringify(records, null, 2));
		return;
	}
	// Loaded only here, so that the help of a command does not load them.
	const [{ default: stringWidth }, { default: truncate }] = await Promise.all([
		import('string-width'),
		import('cli-truncate'),
	]);
	const place = (text: string, width: number) => {
		const short = truncate(text, width);
		return short + ' '.repeat(Math.max(0, width - stringWidth(short)));
	};
	const rows = [
		columns,
		...records.map((record) => columns.map((column) => cell((record as Record<string, unknown>)[column]))),
	];
	const natural = columns.map((_, index) => Math.max(...rows.map((row) => stringWidth(row[index] ?? ''))));
	const { isTTY, columns: width } = streams().stdout;
	const widths = fitWidths(natural, (isTTY && width) || Number.POSITIVE_INFINITY);
	for (const [number, row] of rows.entries()) {
		const cells = row.map((text, index) => place(text, widths[index] ?? 0));
		const last = cells.length - 1;
		cells[last] = cells[last]?.trimEnd() ?? '';
		if (number === 0) print([{ style: 'bold', text: cells.join(gap) }]);
		else print(cells.flatMap((text, index) => [...(index === 0 ? [] : [gap]), styledState(text)]));
	}
}

/** The column widths. Shrinks the widest columns until the line fits. */
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

/** Escapes before measuring, because an escape is wider than its character. */
function cell(value: unknown): string {
	if (value === null || value === undefined) return '-';
	return escapeControls(typeof value === 'object' ? JSON.stringify(value) : String(value));
}

/** A word such as `live` or `revoked` in its colour; any other text as it is. Space around it stays. */
export function styledState(text: string): string | Styled {
	const style = styleOfState(text.trim());
	return style === undefined ? text : { style, text };
}

/** Prints one record: as JSON, or as lines, usually one sentence. */
export function printResult(record: object, lines: string | readonly Line[], { json = false }: OutputOptions): void {
	if (json) printJson(JSON.stringify(record));
	else if (typeof lines === 'string') print(lines);
	else print(...lines);
}
