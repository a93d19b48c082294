import { AsyncLocalStorage } from 'node:async_hooks';
import type { Readable, Writable } from 'node:stream';

/** The streams of a run of the command. */
export interface Streams {
	stdin: Readable & { isTTY?: boolean };
	stdout: Writable & { isTTY?: boolean; columns?: number };
	stderr: Writable & { isTTY?: boolean };
}

interface Run {
	streams: Streams;
	/** Whether part of the work failed. The command has printed which. */
	isIncomplete: boolean;
}

const runs = new AsyncLocalStorage<Run>();

/** The streams of the current command, by default those of the process. One process may run several commands with other streams. */
export const streams = (): Streams => runs.getStore()?.streams ?? process;

/** Makes the command exit with 1 without an exception. */
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
