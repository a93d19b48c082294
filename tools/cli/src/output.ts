import type { Writable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { styleText } from 'node:util';
import { escapeControls, escapeJsonLines } from '@contacts/common/observability/escape-controls.js';
import { OutputError } from './errors.js';
import { outputError, streams } from './streams.js';
import { type Style, styleOfState } from './style.js';
import { cellOf, createTable, gap, type Measure, noValue, wrap } from './table.js';

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

/** Prints lines on standard error, in place of a status line. */
export function printNote(...lines: Line[]): void {
	const { stderr } = streams();
	stderr.write((withStatus.delete(stderr) ? clearLine : '') + textOf(lines, stderr));
}

/** The terminals whose last line is a status. */
const withStatus = new WeakSet<Writable>();

const clearLine = '\r\u001b[K';

/** Shows the state of some work on the last line of the terminal at standard error, until the next line is printed there. */
export function showStatus(text: string): void {
	const { stderr } = streams();
	withStatus.add(stderr);
	stderr.write(clearLine + escapeControls(text));
}

/** Prints lines on standard error, and waits for a slow reader, so that very many lines are not kept in memory. */
export async function writeNote(...lines: Line[]): Promise<void> {
	printNote(...lines);
	const { stderr } = streams();
	// Called in any case, also when the reader has closed the stream.
	if (stderr.writableNeedDrain) await new Promise<void>((resolve) => stderr.write('', () => resolve()));
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

/** @param indented with a field on each line, for people too */
export function printJson(record: object, { indented = false } = {}): void {
	streams().stdout.write(escapeJsonLines(`${JSON.stringify(record, null, indented ? 2 : 0)}\n`));
}

function textOf(lines: readonly Line[], stream: Writable): string {
	const part = (given: string | Styled) =>
		typeof given === 'string' ? escapeControls(given) : styleText(given.style, escapeControls(given.text), { stream });
	return lines.map((line) => `${typeof line === 'string' ? part(line) : line.map(part).join('')}\n`).join('');
}

/**
 * Prints records, given at once or page by page: as a JSON array with a record on each line, or for people, as a table with the
 * columns' names as its head. It asks for a page only when its reader has taken the one before.
 *
 * A table has the columns that are not empty, with times in UTC. On a terminal it fits the width, and a longer value continues on
 * the next line. Elsewhere each record is one line. A single record is printed with all of its fields, one on each line.
 */
export async function printRecords(
	records: readonly object[] | AsyncIterable<readonly object[]>,
	columns: readonly string[],
	{ json = false }: OutputOptions,
): Promise<void> {
	const pages = Symbol.asyncIterator in records ? records : [records];
	if (json) await printArray(pages);
	else await printTable(pages, columns);
}

type Pages = Iterable<readonly object[]> | AsyncIterable<readonly object[]>;

async function printArray(pages: Pages): Promise<void> {
	let separator = '[\n';
	for await (const page of pages) {
		if (page.length === 0) continue;
		await write(escapeJsonLines(separator + page.map((record) => JSON.stringify(record)).join(',\n')));
		separator = ',\n';
	}
	await write(separator === '[\n' ? '[]\n' : '\n]\n');
}

/** A column that is empty on the first pages and not on a later one comes with a new head. */
async function printTable(pages: Pages, columns: readonly string[]): Promise<void> {
	const measure = await loadMeasure();
	const shown = new Set<string>();
	let table = createTable(0, measure);
	/** The first record, while it may be the only one. */
	let first: object | undefined;

	async function printPage(page: readonly object[]): Promise<void> {
		const rows = page.map((record) => columns.map((column) => cellOf((record as Record<string, unknown>)[column])));
		const filled = columns.filter((column, index) => !shown.has(column) && rows.some((row) => row[index] !== ''));
		for (const column of filled) shown.add(column);
		const indexes = columns.flatMap((column, index) => (shown.has(column) ? [index] : []));
		const cells = rows.map((row) => indexes.map((index) => row[index] || noValue));
		if (filled.length > 0) {
			table = createTable(indexes.length, measure);
			cells.unshift(indexes.map((index) => columns[index] ?? ''));
		}
		const laidOut = table.layOut(cells, lineWidth());
		const isState = indexes.map((index) => stateColumns.has(columns[index] ?? ''));
		const lines = laidOut.flatMap((row, number): Line[] =>
			number === 0 && filled.length > 0 ? row.map(headOf) : row.map((texts) => lineOf(texts, isState)),
		);
		await write(textOf(lines, streams().stdout));
	}

	for await (const page of pages) {
		if (page.length === 0) continue;
		if (first === undefined && shown.size === 0 && page.length === 1) [first] = page;
		else {
			await printPage(first === undefined ? page : [first, ...page]);
			first = undefined;
		}
	}
	if (first !== undefined) await printFields(first);
	else if (shown.size === 0) await write(textOf([headOf([...columns])], streams().stdout));
}

/** Their values have colours. */
const stateColumns = new Set(['state', 'outcome']);

const headOf = (texts: readonly string[]): Line => [{ style: 'bold', text: texts.join(gap).trimEnd() }];

const lineOf = (texts: readonly string[], isState: readonly boolean[]): Line =>
	texts.flatMap((text, index) => {
		const shown = index === texts.length - 1 ? text.trimEnd() : text + gap;
		return [isState[index] ? styledState(shown) : shown];
	});

/** Prints the fields of a record that are not empty, one on each line. */
async function printFields(record: object): Promise<void> {
	const fields = Object.entries(record).flatMap(([name, value]) => {
		const text = cellOf(value);
		return text === '' ? [] : [[name, text] as const];
	});
	const width = Math.max(0, ...fields.map(([name]) => name.length)) + gap.length;
	await write(
		textOf(
			(await Promise.all(fields.map(([name, text]) => hanging([name.padEnd(width)], text)))).flat(),
			streams().stdout,
		),
	);
}

/** A text behind a heading, whose further lines on a terminal begin below the first. */
export async function hanging(heading: readonly (string | Styled)[], text: string): Promise<Line[]> {
	const size = heading.reduce((sum, part) => sum + (typeof part === 'string' ? part : part.text).length, 0);
	const lines = wrap(text, Math.max(20, lineWidth() - size), await loadMeasure());
	return lines.map((line, number) => [...(number === 0 ? heading : [' '.repeat(size)]), styledState(line)]);
}

const lineWidth = () => {
	const { isTTY, columns } = streams().stdout;
	return (isTTY && columns) || Number.POSITIVE_INFINITY;
};

/** Loaded only when something is printed in columns, so that the help of a command does not load it. */
const loadMeasure = async (): Promise<Measure> => (await import('string-width')).default;

/** A word such as `live` or `revoked` in its colour; any other text as it is. Space around it stays. */
export function styledState(text: string): string | Styled {
	const style = styleOfState(text.trim());
	return style === undefined ? text : { style, text };
}

/** Prints one record: as JSON, or as lines, usually one sentence. */
export function printResult(record: object, lines: string | readonly Line[], { json = false }: OutputOptions): void {
	if (json) printJson(record);
	else if (typeof lines === 'string') print(lines);
	else print(...lines);
}
