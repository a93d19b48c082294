import { write, writeSync } from 'node:fs';
import type { DestinationStream } from 'pino';
import { escapeJsonLines } from './escape-controls.js';

/** The interval between two writes. It is long enough for the lines of many requests, and too short to notice. */
const flushIntervalMs = 20;

/** The interval between two attempts to write to a full pipe, whose reader comes to it usually within a millisecond, or disk. */
const retryIntervalMs = 5;

/** The size of one write: the capacity of a pipe. */
const maxWriteBytes = 65_536;

/** Lines that can't be written are kept up to this length, in characters. Further ones are dropped until all are written. */
const maxUnwritten = 16_777_216;

/** How long an exit waits for a reader. */
const maxExitMs = 1000;

/** How long an exit waits for a write in progress: a pipe or a file accepts one in less than a millisecond. */
const lastWriteMs = 100;

/**
 * Standard output with one write for all lines of 20 milliseconds. A write in each turn of the event loop took a tenth of
 * the processor time of a busy service. The remaining lines are written when the process exits for any reason except SIGKILL.
 *
 * A failed write, as on a full disk, is tried again and stops nothing. Lines that a pipe without a reader refuses are dropped:
 * nobody can read them any more. Later lines are written, because a named pipe may get another reader.
 *
 * `pino.destination` (4.2 of its library, with `sync: false` and `maxLength`) retries for ever in the exit while the disk is full,
 * so that the process can only be killed. While a pipe is full, it throws in the exit.
 *
 * @param onDrop receives the number of dropped lines, once lines are accepted again
 */
export function openStandardOutput(onDrop: (lines: number) => void): DestinationStream {
	let lines = '';
	/** What was taken from `lines` and is not written yet. */
	let rest = Buffer.alloc(0);
	/** How many bytes of it another thread is writing. */
	let inWrite = 0;
	let dropped = 0;
	let isScheduled = false;

	function schedule(delayMs: number): void {
		if (isScheduled || inWrite > 0) return;
		isScheduled = true;
		setTimeout(flush, delayMs).unref();
	}
	function flush(): void {
		isScheduled = false;
		if (rest.length === 0) {
			rest = Buffer.from(escapeJsonLines(lines));
			lines = '';
		}
		inWrite = Math.min(rest.length, maxWriteBytes);
		write(1, rest, 0, inWrite, (error, written = 0) => {
			inWrite = 0;
			rest = rest.subarray(written);
			if (error?.code === 'EPIPE') {
				dropped += `${rest}${lines}`.split('\n').length - 1;
				rest = Buffer.alloc(0);
				lines = '';
			} else if (error !== null) schedule(retryIntervalMs);
			else if (rest.length > 0) flush();
			else if (lines !== '') schedule(flushIntervalMs);
			else if (dropped > 0) {
				const count = dropped;
				dropped = 0;
				onDrop(count);
			}
		});
	}
	process.once('exit', () => {
		// Another thread does the write in progress, and its end can't be seen any more: later lines must not overtake it.
		if (inWrite > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, lastWriteMs);
		writeAll(Buffer.concat([rest.subarray(inWrite), Buffer.from(escapeJsonLines(lines))]));
	});
	return {
		write(line) {
			const unwritten = lines.length + rest.length;
			if ((dropped > 0 && unwritten > 0) || unwritten > maxUnwritten) {
				dropped++;
				return;
			}
			lines += line;
			schedule(flushIntervalMs);
		},
	};
}

/** Writes to standard output before it returns, as long as a reader accepts it. */
function writeAll(bytes: Buffer): void {
	const end = performance.now() + maxExitMs;
	for (let written = 0; written < bytes.length && performance.now() < end; ) {
		try {
			written += writeSync(1, bytes, written);
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return;
		}
	}
}
