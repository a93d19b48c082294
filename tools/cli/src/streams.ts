import { AsyncLocalStorage } from 'node:async_hooks';
import type { Readable, Writable } from 'node:stream';
import { OutputError } from './errors.js';

/** The streams of a run of the command. */
export interface Streams {
	stdin: Readable & { isTTY?: boolean };
	stdout: Writable & { isTTY?: boolean; columns?: number };
	stderr: Writable & { isTTY?: boolean; columns?: number };
}

interface Run {
	streams: Streams;
	/** Whether part of the work failed. The command has printed which. */
	isIncomplete: boolean;
	outputError: OutputError | undefined;
}

const runs = new AsyncLocalStorage<Run>();

/** The streams of the current command, by default those of the process. One process may run several commands with other streams. */
export const streams = (): Streams => runs.getStore()?.streams ?? process;

/** Makes the command exit with 1 without an exception. */
export function markIncomplete(): void {
	const run = runs.getStore();
	if (run !== undefined) run.isIncomplete = true;
}

export const isIncomplete = (): boolean => runs.getStore()?.isIncomplete ?? false;

/** Why standard output could not be written, if so. */
export const outputError = (): OutputError | undefined => runs.getStore()?.outputError;

/** Runs the work of a command with these streams. */
export function withStreams<Result>(given: Streams, work: () => Promise<Result>): Promise<Result> {
	const run: Run = { streams: given, isIncomplete: false, outputError: undefined };
	// Without a listener, an error of these streams ends the process with a stack trace. They stay: an error may come late.
	given.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
		run.outputError ??= new OutputError(code);
	});
	given.stderr.on('error', () => undefined);
	return runs.run(run, work);
}
