import type { Writable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { styleText } from 'node:util';
import { escapeControls, escapeJsonLines } from '@contacts/common/observability/escape-controls.js';
import { Help } from 'commander';
import { OutputError } from './errors.js';
import { outputError, type Streams, streams } from './streams.js';

/** One line, of one or several parts. A part that is a word such as `live` or `revoked` gets its colour. */
export type Line = string | readonly string[];

export interface OutputOptions {
	json?: boolean;
}

const colours = new Map<string, 'green' | 'yellow' | 'red' | 'dim'>([
	...['ok', 'live', 'enabled', 'active', 'done'].map((word) => [word, 'green'] as const),
	...['warning', 'planned', 'expired'].map((word) => [word, 'yellow'] as const),
	...['problem', 'revoked', 'disabled', 'failed', 'error:'].map((word) => [word, 'red'] as const),
	...['skipped', 'ended'].map((word) => [word, 'dim'] as const),
]);

/**
 * All output for people passes through here: a control character in it is shown as an escape, so that nothing from a file, the
 * portal or the database reaches the terminal as a command, or looks like a line of ours. There are colours on a terminal that has
 * them (NO_COLOR, FORCE_COLOR), and lines break between words at its width.
 */
function textOf(lines: readonly Line[], stream: Streams['stdout']): string {
	const part = (text: string) => {
		const colour = colours.get(text.trim());
		return colour === undefined ? escapeControls(text) : styleText(colour, text, { stream });
	};
	return lines.map((line) => `${wrap([line].flat().map(part).join(''), widthOf(stream))}\n`).join('');
}

/** Prints lines on standard output. */
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

/** Prints one record: as JSON, or as lines, usually one sentence. */
export function printResult(record: object, lines: string | readonly Line[], { json = false }: OutputOptions): void {
	if (json) printJson(record);
	else if (typeof lines === 'string') print(lines);
	else print(...lines);
}

/**
 * Prints records, given at once or page by page: as a JSON array with a record on each line, or for people, as a table with the
 * columns' names as its head, which comes again where a page has other columns or widths. It asks for a page only when its reader has taken the one before.
 *
 * A table has the columns that are not empty, with times in UTC. On a terminal the last column continues on the next line.
 * A single record is printed with all of its fields, one on each line.
 */
export async function printRecords(
	records: readonly object[] | AsyncIterable<readonly object[]>,
	columns: readonly string[],
	{ json = false }: OutputOptions,
): Promise<void> {
	let isFirst = true;
	let head: string | undefined;
	for await (const page of Symbol.asyncIterator in records ? records : [records]) {
		if (page.length === 0) continue;
		if (json) {
			const text = page.map((record) => JSON.stringify(record)).join(',\n');
			await write(escapeJsonLines((isFirst ? '[\n' : ',\n') + text));
		} else if (isFirst && page.length === 1) {
			await write(textOf(fieldsOf(page[0] as object), streams().stdout));
		} else {
			const table = tableOf(page, columns);
			await write((table.head === head ? '' : table.head) + table.body);
			head = table.head;
		}
		isFirst = false;
	}
	if (json) await write(isFirst ? '[]\n' : '\n]\n');
	else if (isFirst) await write(headOf(columns));
}

/** Between two columns. */
const gap = '  ';

/** The last column of a table gets at least this width, or separate lines below the others. */
const minLastColumn = 30;

function tableOf(records: readonly object[], columns: readonly string[]): { head: string; body: string } {
	const cells = records.map((record) => columns.map((column) => cellOf((record as Record<string, unknown>)[column])));
	const shown = columns.flatMap((_, index) => (cells.some((row) => row[index] !== '') ? [index] : []));
	const names = shown.map((index) => String(columns[index]));
	const rows = cells.map((row) => shown.map((index) => row[index] || '-'));
	const widths = names.map((name, index) =>
		rows.reduce((max, row) => Math.max(max, String(row[index]).length), name.length),
	);
	const [lastWidth = 0] = widths.splice(-1, 1, 0);
	const before = widths.reduce((sum, width) => sum + width + gap.length, -gap.length);
	const isBelow = widthOf(streams().stdout) - before < Math.min(minLastColumn, lastWidth);
	const indent = isBelow ? (widths[0] ?? 0) + gap.length : before;
	const lines = rows.flatMap((row): Line[] => {
		const padded = row.map((text, index) => (index < row.length - 1 ? text.padEnd(widths[index] ?? 0) + gap : text));
		const [first, ...others] = behind(padded.pop() ?? '', indent).map((line) => ' '.repeat(indent) + line);
		if (isBelow) return [trimmed(padded), ...(row.at(-1) === '-' ? [] : [first ?? '', ...others])];
		return [[...padded, (first ?? '').slice(indent)], ...others];
	});
	return {
		head: headOf(names.map((name, index) => name.padEnd(widths[index] ?? 0))),
		body: textOf(lines, streams().stdout),
	};
}

const trimmed = (parts: readonly string[]): Line => [...parts.slice(0, -1), parts.at(-1)?.trimEnd() ?? ''];

const headOf = (names: readonly string[]): string =>
	`${styleText('bold', names.join(gap).trimEnd(), { stream: streams().stdout })}\n`;

/** The fields of a record that are not empty, one on each line. */
function fieldsOf(record: object): Line[] {
	const fields = Object.entries(record).map(([name, value]) => [name, cellOf(value)] as const);
	const shown = fields.filter(([, text]) => text !== '');
	const width = Math.max(0, ...shown.map(([name]) => name.length)) + gap.length;
	return shown.flatMap(([name, text]) => hanging([name.padEnd(width)], text));
}

/** A text behind a heading, whose further lines on a terminal begin below the first. */
export function hanging(heading: readonly string[], text: string): Line[] {
	const indent = heading.join('').length;
	return behind(text, indent).map((line, number) => (number === 0 ? [...heading, line] : ' '.repeat(indent) + line));
}

const help = Object.assign(new Help(), { minWidthToWrap: 0 });

/** Breaks text between words into lines of at most this width. */
export const wrap = (text: string, width: number): string =>
	width === Number.POSITIVE_INFINITY ? text : help.boxWrap(text, Math.max(20, width));

/** The lines of a text that begins behind this many columns of standard output. */
const behind = (text: string, indent: number): string[] => wrap(text, widthOf(streams().stdout) - indent).split('\n');

const widthOf = ({ isTTY, columns }: Streams['stdout']): number => (isTTY && columns) || Number.POSITIVE_INFINITY;

/** Such as `1 record` or `2 records`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

const times = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)/g;

/** The text of a value, empty for none. Times are such as `2026-11-22 18:57`, in UTC. */
function cellOf(value: unknown): string {
	if (value === null || value === undefined || value === false) return '';
	if (value === true) return 'yes';
	// Before the text is measured, because an escape is wider than its character.
	return escapeControls(
		typeof value === 'object'
			? JSON.stringify(value)
			: String(value).replaceAll(times, (time) => new Date(time).toISOString().slice(0, 16).replace('T', ' ')),
	);
}
