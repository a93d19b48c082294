import { AsyncLocalStorage } from 'node:async_hooks';
import type { Readable, Writable } from 'node:stream';

/** What a run of the command reads and writes. */
export interface Streams {
	stdin: Readable & { isTTY?: boolean };
	stdout: Writable & { isTTY?: boolean; columns?: number };
	stderr: Writable & { isTTY?: boolean };
}

interface Run {
	streams: Streams;
	/** Some of what was asked for could not be done; what it was has been printed. */
	isIncomplete: boolean;
}

const runs = new AsyncLocalStorage<Run>();

/** The streams of the command that runs here: a process may run several, each with other streams. By default the process's. */
export const streams = (): Streams => runs.getStore()?.streams ?? process;

/** Has the command exit with 1, though nothing is thrown. */
export function markIncomplete(): void {
	const run = runs.getStore();
	if (run !== undefined) run.isIncomplete = true;
}

/** @returns whether the work was marked incomplete */
export async function withStreams(given: Streams, work: () => Promise<void>): Promise<boolean> {
	const run: Run = { streams: given, isIncomplete: false };
	await runs.run(run, work);
	return run.isIncomplete;
}
