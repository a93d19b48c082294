import type { Readable, Writable } from 'node:stream';
import { escapeControls, escapeJsonLines } from '@contacts/common/observability/escape-controls.js';

export interface Streams {
	stdin: Readable;
	stdout: Writable;
	stderr: Writable;
}

/** What a command works with. */
export interface Context {
	environment: NodeJS.ProcessEnv;
	stdin: Readable;
	output: Output;
}

export interface OutputOptions {
	json?: boolean;
}

export type Output = ReturnType<typeof createOutput>;

/**
 * All output passes through here. A control character is shown as an escape, so that nothing from a file, the CRM or the database
 * reaches the terminal as a command, or looks like a line of ours.
 */
export function createOutput({ stdout, stderr }: Streams) {
	const print = (line: string) => void stdout.write(`${escapeControls(line)}\n`);
	const note = (line: string) => void stderr.write(`${escapeControls(line)}\n`);
	const json = (text: string) => void stdout.write(escapeJsonLines(text));

	/** Waits until the reader has taken what was written, so that a long output is not kept in memory. */
	async function taken(): Promise<void> {
		for (const stream of [stdout, stderr])
			if (stream.writableNeedDrain) await new Promise<void>((resolve) => stream.write('', () => resolve()));
	}

	return {
		/** Prints a line on standard output. */
		print,
		/** Prints a line on standard error. */
		note,
		taken,
		/** Prints one record, with a field on each line. */
		record: (record: object) => json(`${JSON.stringify(record, null, 2)}\n`),
		/** Prints what was done: one record as JSON, or a sentence. */
		result(record: object, sentence: string, { json: asJson = false }: OutputOptions): void {
			if (asJson) json(`${JSON.stringify(record)}\n`);
			else print(sentence);
		},
		/**
		 * Prints records, given at once or page by page: as a JSON array with a record on each line, or as a table of these columns.
		 * It asks for a page only when its reader has taken the one before.
		 */
		async records(
			pages: Iterable<readonly object[]> | AsyncIterable<readonly object[]>,
			columns: readonly string[],
			{ json: asJson = false }: OutputOptions,
		): Promise<void> {
			let isFirst = true;
			for await (const page of pages) {
				if (page.length === 0) continue;
				if (asJson) json((isFirst ? '[\n' : ',\n') + page.map((record) => JSON.stringify(record)).join(',\n'));
				else for (const line of tableOf(page, columns, isFirst)) print(line);
				isFirst = false;
				await taken();
			}
			if (asJson) json(isFirst ? '[]\n' : '\n]\n');
			else if (isFirst) print(columns.join('  '));
		},
	};
}

/** The lines of a table, each column as wide as its widest cell. */
function tableOf(records: readonly object[], columns: readonly string[], withHead: boolean): string[] {
	const rows = records.map((record) => columns.map((column) => cellOf((record as Record<string, unknown>)[column])));
	if (withHead) rows.unshift([...columns]);
	const widths = columns.map((_, index) => rows.reduce((max, row) => Math.max(max, row[index]?.length ?? 0), 0));
	return rows.map((row) =>
		row
			.map((cell, index) => cell.padEnd(widths[index] ?? 0))
			.join('  ')
			.trimEnd(),
	);
}

/** Escaped before it is measured, because an escape is wider than its character. */
function cellOf(value: unknown): string {
	if (value === null || value === undefined) return '-';
	return escapeControls(typeof value === 'object' ? JSON.stringify(value) : String(value));
}

/** Such as `1 record` or `2 records`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** Lines that can be pasted, for the end of a command's help. */
export const examples = (...lines: string[]): string => ['\nExamples:', ...lines].join('\n  ');
