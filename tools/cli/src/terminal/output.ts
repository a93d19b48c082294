import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { escapeControls, escapeJsonLines } from '@contacts/common/observability/escape-controls.js';
import { CommandError, UsageError } from '../errors.js';
import { createProgress, type Terminal } from './progress.js';
import { hang, tableOf } from './table.js';

export interface Streams {
	stdin: Readable & { isTTY?: boolean };
	stdout: Terminal;
	stderr: Terminal;
}

/** What a command works with. */
export interface Context {
	environment: NodeJS.ProcessEnv;
	stdin: Streams['stdin'];
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
export function createOutput({ stdin, stdout, stderr }: Streams, now?: () => number) {
	const progress = createProgress(stderr, now);
	// A terminal without a size has 0 columns.
	const width = stdout.isTTY ? stdout.columns || 80 : undefined;
	function write(stream: Writable, text: string): void {
		progress.clear();
		stream.write(text);
	}
	/** Prints a line on standard output. */
	const print = (line: string) => write(stdout, `${escapeControls(line)}\n`);
	/** Prints a line on standard error. */
	const note = (line: string) => write(stderr, `${escapeControls(line)}\n`);
	const json = (lines: string) => write(stdout, escapeJsonLines(`${lines}\n`));

	return {
		print,
		note,
		/** Prints a line on standard error for a person at a terminal. */
		hint(line: string): void {
			if (stderr.isTTY) note(line);
		},
		/** Prints a text behind its label, on a terminal wrapped under itself. */
		entry(label: string, text: string): void {
			for (const line of width === undefined ? [label + text] : hang(label, [escapeControls(text)], width)) print(line);
		},
		/** Waits until the reader has taken the notes, so that very many are not kept in memory. */
		async taken(): Promise<void> {
			if (stderr.writableNeedDrain) await new Promise<void>((resolve) => stderr.write('', () => resolve()));
		},
		/** Shows how far long work has come. Call it as often as you like: few of the states are shown. */
		progress: progress.show,
		/**
		 * Asks the person at the terminal before something is overwritten or deleted.
		 *
		 * @param yes don't ask
		 * @throws UsageError when there is no terminal; CommandError when the reply is not yes
		 */
		async confirm(consequence: string, yes = false): Promise<void> {
			if (yes) return;
			if (!stdin.isTTY || !stderr.isTTY)
				throw new UsageError(`${consequence} There is no terminal to ask at. Say --yes to do it.`);
			write(stderr, `${escapeControls(consequence)} Continue? [y/N] `);
			const terminal = createInterface(stdin);
			// Ctrl-D closes it without a line.
			const [reply = ''] = await Promise.race([once(terminal, 'line'), once(terminal, 'close')]);
			terminal.close();
			if (!/^y(es)?$/i.test(reply.trim())) throw new CommandError('Nothing was done.');
		},
		/** Prints a record as JSON, with a field on each line. */
		record: (record: object) => json(JSON.stringify(record, null, 2)),
		/** Prints what was done: one record as JSON, or a sentence. */
		result(record: object, sentence: string, { json: asJson = false }: OutputOptions): void {
			if (asJson) json(JSON.stringify(record));
			else print(sentence);
		},
		/** Prints records as a JSON array with a record on each line, or as a table of these columns. An array is the lines of a cell. */
		records(records: readonly object[], columns: readonly string[], { json: asJson = false }: OutputOptions): void {
			if (!asJson) for (const line of tableOf(records, columns, width)) print(line);
			else if (records.length === 0) json('[]');
			else json(`[\n${records.map((record) => JSON.stringify(record)).join(',\n')}\n]`);
		},
	};
}

/** Such as `1 record` or `2 records`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** Lines that can be pasted, for the end of a command's help. */
export const examples = (...lines: string[]): string => ['\nExamples:', ...lines].join('\n  ');
