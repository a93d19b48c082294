import { escapeControls } from '@contacts/common/observability/escape-controls.js';

/** Between two columns. */
export const gap = '  ';

/** A longer word may be broken. No time and no ID is as long: a 64-bit integer has 20 characters. */
const maxWord = 20;

/** The last column of a table gets at least this width, or lines of its own below the others. */
const minLastColumn = 30;

/** Measures text in columns of a terminal. */
export type Measure = (text: string) => number;

/** A row of a table: its lines, each with the padded text of every column. */
export type Row = string[][];

/**
 * Lays out rows in columns that only get wider, so that the rows of a long list can be printed page by page. A value that is too
 * long for its column continues on the next line.
 */
export function createTable(columns: number, measure: Measure) {
	const natural = Array.from({ length: columns }, () => 0);
	const narrowest = Array.from({ length: columns }, () => 0);

	function widen(rows: readonly string[][], isLimited: boolean): void {
		for (const row of rows) {
			for (const [index, text] of row.entries()) {
				natural[index] = Math.max(natural[index] ?? 0, measure(text));
				if (!isLimited) continue;
				const words = wordsOf(text).map((word) => Math.min(maxWord, measure(word.trimEnd())));
				narrowest[index] = Math.max(narrowest[index] ?? 0, ...words);
			}
		}
	}

	/** @param lineWidth of the terminal; infinite elsewhere */
	function layOut(rows: readonly string[][], lineWidth: number): Row[] {
		widen(rows, Number.isFinite(lineWidth));
		const widths = fitWidths(natural, narrowest, lineWidth);
		const last = columns - 1;
		if ((widths[last] ?? 0) >= Math.min(minLastColumn, natural[last] ?? 0))
			return rows.map((row) => layOutRow(row, widths, measure));
		const others = fitWidths(natural.slice(0, last), narrowest, lineWidth);
		const indent = (others[0] ?? 0) + gap.length;
		return rows.map((row) => [
			...layOutRow(row.slice(0, last), others, measure),
			...wrap(row[last] ?? '', lineWidth - indent, measure).flatMap((line) =>
				line === noValue ? [] : [[' '.repeat(others[0] ?? 0), line]],
			),
		]);
	}
	return { layOut };
}

/** Stands for an empty value. */
export const noValue = '-';

/** The column widths. Shrinks the widest columns until the line fits, but none below its longest word. */
export function fitWidths(natural: readonly number[], narrowest: readonly number[], lineWidth: number): number[] {
	const widths = [...natural];
	let excess = widths.reduce((sum, width) => sum + width, gap.length * (widths.length - 1)) - lineWidth;
	for (; excess > 0; excess--) {
		const spare = widths.map((width, index) => (width > (narrowest[index] ?? 0) ? width : 0));
		const widest = Math.max(0, ...spare);
		if (widest === 0) break;
		widths[spare.indexOf(widest)] = widest - 1;
	}
	return widths;
}

function layOutRow(row: readonly string[], widths: readonly number[], measure: Measure): Row {
	const cells = row.map((text, index) => wrap(text, widths[index] ?? 0, measure, wordsOf));
	const height = Math.max(...cells.map((lines) => lines.length));
	return Array.from({ length: height }, (_, line) =>
		cells.map((lines, index) => {
			const text = lines[line] ?? '';
			return text + ' '.repeat(Math.max(0, (widths[index] ?? 0) - measure(text)));
		}),
	);
}

/** Breaks text into lines of this width: between words, and a longer word anywhere. */
export function wrap(text: string, width: number, measure: Measure, split = splitAtSpaces): string[] {
	if (measure(text) <= width) return [text];
	const lines: string[] = [];
	let line = '';
	for (const word of split(text)) {
		if (measure(line + word.trimEnd()) <= width) {
			line += word;
			continue;
		}
		if (line !== '') lines.push(line.trimEnd());
		line = '';
		for (const character of measure(word.trimEnd()) <= width ? [word] : charactersOf(word)) {
			if (line !== '' && measure(line + character) > width) {
				lines.push(line);
				line = '';
			}
			line += character;
		}
	}
	return line.trimEnd() === '' ? lines : [...lines, line.trimEnd()];
}

/** The words of a text. A time is one word. */
const splitAtSpaces = (text: string): string[] => text.match(/(\d{4}-\d\d-\d\d \d\d:\d\d\S*|\S+)\s*|\s+/g) ?? [];

/** The parts between which a line of a narrow column may break. */
const wordsOf = (text: string): string[] =>
	splitAtSpaces(text).flatMap((word) =>
		/^\d{4}-\d\d-\d\d /.test(word) ? [word] : (word.match(/^-?[^-_@]+[-_@]*|[^-_@]+[-_@]*|[-_@]+/g) ?? []),
	);

const segmenter = new Intl.Segmenter();

const charactersOf = (text: string): string[] => [...segmenter.segment(text)].map(({ segment }) => segment);

const times = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)/g;

/** Shortens RFC 3339 times in a text for people, such as `2026-11-22 18:57`, in UTC. */
export const withShortTimes = (text: string): string =>
	text.replaceAll(times, (time) => new Date(time).toISOString().slice(0, 16).replace('T', ' '));

/**
 * The text of a value, empty for none. Control characters are escaped before the text is measured, because an escape is wider than
 * its character.
 */
export function cellOf(value: unknown): string {
	if (value === null || value === undefined || value === false) return '';
	if (value === true) return 'yes';
	return escapeControls(typeof value === 'object' ? JSON.stringify(value) : withShortTimes(String(value)));
}
