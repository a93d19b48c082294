import { escapeControls } from '@contacts/common/observability/escape-controls.js';

/** What a cell of a table shows, line by line. */
type Cell = readonly string[];

const gap = '  ';
const nothing = '-';

/**
 * The lines of a table. Without a width each record is one line with all columns, for programs.
 *
 * With the width of a terminal no line is longer, and nothing breaks inside a word. Columns without any value are left out. The last
 * column wraps under itself, or stands below its record. If the others do not fit beside each other, each record is a list of its
 * fields.
 */
export function tableOf(records: readonly object[], columns: readonly string[], width?: number): string[] {
	const rows = records.map((record) => columns.map((column) => cellOf((record as Record<string, unknown>)[column])));
	if (width === undefined) return align([columns, ...rows.map((row) => row.map((cell) => cell.join('; ')))]);

	const isUsed = (_: unknown, index: number) =>
		rows.length === 0 || rows.some((row) => row[index]?.join('') !== nothing);
	const names = columns.filter(isUsed);
	const used = rows.map((row) => row.filter(isUsed));
	const heads = align(
		[names.slice(0, -1), ...used.map((row) => row.slice(0, -1).map((cell) => cell.join('; ')))],
		true,
	);
	const tails = [[names.at(-1) ?? ''], ...used.map((row) => row.at(-1) ?? [])];
	const longestWord = tails
		.flat()
		.reduce((max, line) => Math.max(max, ...line.split(' ').map((word) => word.length)), 0);

	const indent = heads[0] ? heads[0].length + gap.length : 0;
	if (indent + longestWord <= width || indent === 0)
		return tails.flatMap((tail, index) => hang(heads[index] ? heads[index] + gap : '', tail, width));
	if (indent - gap.length <= width)
		return tails.flatMap((tail, index) => [
			(heads[index] ?? '').trimEnd(),
			...(tail.join('') === nothing ? [] : hang('    ', tail, width)),
		]);
	const label = Math.max(...names.map((name) => name.length)) + gap.length;
	return used.flatMap((row, index) => [
		...(index === 0 ? [] : ['']),
		...row.flatMap((cell, column) => hang((names[column] ?? '').padEnd(label), cell, width)),
	]);
}

/** Lines behind a label. Each is wrapped between words, and all begin below each other. */
export function hang(label: string, lines: readonly string[], width: number): string[] {
	const indent = ' '.repeat(label.length);
	const wrapped = lines.flatMap((line) => wrap(line, width - label.length));
	return wrapped.map((line, index) => `${index === 0 ? label : indent}${line}`.trimEnd());
}

/** A word that is longer than the width has a line for itself. */
function wrap(text: string, width: number): string[] {
	const lines: string[] = [];
	for (const word of text.split(' ')) {
		const last = lines.at(-1);
		if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`;
		else lines.push(word);
	}
	return lines;
}

/** Lines of cells, each column as wide as its widest cell. */
function align(rows: readonly (readonly string[])[], isPadded = false): string[] {
	const widths: number[] = [];
	for (const row of rows)
		for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, cell.length);
	return rows.map((row) => {
		const line = row.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join(gap);
		return isPadded ? line : line.trimEnd();
	});
}

/** Escaped before it is measured, because an escape is wider than its character. */
function cellOf(value: unknown): Cell {
	const lines = Array.isArray(value) ? value : [value];
	return lines.length === 0 ? [nothing] : lines.map((line) => escapeControls(textOf(line)));
}

const time = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|\+00:00)$/;

/** Times in UTC, to the second. */
export function textOf(value: unknown): string {
	if (value === null || value === undefined) return nothing;
	if (typeof value === 'object') return JSON.stringify(value);
	return String(value).replace(time, '$1Z');
}
