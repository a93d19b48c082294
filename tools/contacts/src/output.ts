import type { Writable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { styleText } from 'node:util';
import { escapeControls, escapeJsonLines } from '@contacts/common/observability/escape-controls.js';
import { OutputError } from './errors.js';
import { outputError, streams } from './streams.js';
import { type Style, styleOfState } from './style.js';

/** A part of a line in a colour, if the stream is a terminal with colours (NO_COLOR, FORCE_COLOR). */
interface Styled {
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
	streams().stdout.write(textOf(lines, streams().stdout));
}

/** Prints lines on standard error. */
export function printNote(...lines: Line[]): void {
	streams().stderr.write(textOf(lines, streams().stderr));
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

/**
 * Writes on standard output, and waits until its reader or the system has taken the text.
 *
 * @throws OutputError
 */
function write(text: string): Promise<void> {
	return new Promise((resolve, reject) => {
		streams().stdout.write(text, (error) => {
			if (error) reject(new OutputError((error as NodeJS.ErrnoException).code));
			else resolve();
		});
	});
}

/**
 * Waits until everything is written on standard output.
 *
 * @throws OutputError when something could not be written
 */
export async function finishOutput(): Promise<void> {
	await write('');
	// The error of a text that nobody has waited for comes in this turn.
	await setImmediate();
	const error = outputError();
	if (error !== undefined) throw error;
}

function printJson(json: string): void {
	streams().stdout.write(escapeJsonLines(`${json}\n`));
}

function textOf(lines: readonly Line[], stream: Writable): string {
	const part = (given: string | Styled) =>
		typeof given === 'string' ? escapeControls(given) : styleText(given.style, escapeControls(given.text), { stream });
	return lines.map((line) => `${typeof line === 'string' ? part(line) : line.map(part).join('')}\n`).join('');
}

/** Between two columns of a table. */
const gap = '  ';

/** The minimum width of a column, so that it stays readable. */
const narrowest = 5;

/**
 * Prints records, given at once or page by page: as a JSON array, or as a table with the fields' names as its head. It asks for
 * a page only when its reader has taken the one before. On a terminal the table fits its width: a longer value ends in an
 * ellipsis. Elsewhere nothing is cut off.
 */
export async function printRecords(
	records: readonly object[] | AsyncIterable<readonly object[]>,
	columns: string[],
	{ json = false }: OutputOptions,
): Promise<void> {
	const pages = Symbol.asyncIterator in records ? records : [records];
	if (json) await printArray(pages);
	else await printTable(pages, columns);
}

type Pages = Iterable<readonly object[]> | AsyncIterable<readonly object[]>;

async function printArray(pages: Pages): Promise<void> {
	let separator = '[';
	for await (const page of pages) {
		if (page.length === 0) continue;
		// Without the brackets of the page.
		await write(escapeJsonLines(separator + JSON.stringify(page, null, 2).slice(1, -2)));
		separator = ',';
	}
	await write(separator === '[' ? '[]\n' : '\n]\n');
}

/** The columns have the widths of the first page. A later page that needs more makes them wider. */
async function printTable(pages: Pages, columns: string[]): Promise<void> {
	// Loaded only here, so that the help of a command does not load them.
	const [{ default: stringWidth }, { default: truncate }] = await Promise.all([
		import('string-width'),
		import('cli-truncate'),
	]);
	const { stdout } = streams();
	const lineWidth = (stdout.isTTY && stdout.columns) || Number.POSITIVE_INFINITY;
	const natural = columns.map(() => 0);

	const place = (text: string, own: number, width: number) => {
		if (own <= width) return text + ' '.repeat(width - own);
		const short = truncate(text, width);
		return short + ' '.repeat(Math.max(0, width - stringWidth(short)));
	};
	function render(rows: readonly string[][]): string[][] {
		const sizes = rows.map((row) => row.map((text) => stringWidth(text)));
		for (const row of sizes)
			for (const [index, size] of row.entries()) natural[index] = Math.max(natural[index] ?? 0, size);
		const widths = fitWidths(natural, lineWidth);
		return rows.map((row, number) => {
			const cells = row.map((text, index) => place(text, sizes[number]?.[index] ?? 0, widths[index] ?? 0));
			return [...cells.slice(0, -1), cells.at(-1)?.trimEnd() ?? ''];
		});
	}
	let head: string[][] = [columns];
	const printPage = async (page: readonly object[]) => {
		const rows = page.map((record) => columns.map((column) => cell((record as Record<string, unknown>)[column])));
		const rendered = render([...head, ...rows]);
		const lines = rendered.map(
			(cells, number): Line =>
				number < head.length
					? [{ style: 'bold', text: cells.join(gap) }]
					: cells.flatMap((text, index) => [...(index === 0 ? [] : [gap]), styledState(text)]),
		);
		head = [];
		await write(textOf(lines, stdout));
	};
	for await (const page of pages) if (page.length > 0) await printPage(page);
	if (head.length > 0) await printPage([]);
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
