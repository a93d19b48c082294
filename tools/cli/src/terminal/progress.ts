import type { Writable } from 'node:stream';

/** A stream that may be a terminal. */
export type Terminal = Writable & { isTTY?: boolean; columns?: number };

const intervalsMs = { terminal: 250, lines: 10_000 };

/** The progress of long work on standard error: one line that is replaced on a terminal, and a line every 10 seconds elsewhere. */
export function createProgress(stderr: Terminal, now = () => performance.now()) {
	const { isTTY = false, columns } = stderr;
	let nextAt = isTTY ? 0 : now() + intervalsMs.lines;
	let isShown = false;
	return {
		show(state: string): void {
			if (now() < nextAt) return;
			nextAt = now() + (isTTY ? intervalsMs.terminal : intervalsMs.lines);
			// A line that is wider than the terminal could not be replaced. A terminal without a size has 0 columns.
			stderr.write(isTTY ? `\r\u001b[K${state.slice(0, (columns || 80) - 1)}` : `${state}\n`);
			isShown = isTTY;
		},
		clear(): void {
			if (isShown) stderr.write('\r\u001b[K');
			isShown = false;
		},
	};
}

/** How far a file was read, and how long the rest will take, such as `, 45 %, 3 min left`. Empty when its size is not known. */
export function describeShare(share: number | undefined, elapsedMs: number): string {
	if (share === undefined) return '';
	const percent = `, ${Math.floor(share * 100)} %`;
	// At the beginning nobody knows how fast it will be.
	if (elapsedMs < 2000 || share < 0.01 || share >= 1) return percent;
	const seconds = Math.ceil((elapsedMs * (1 - share)) / share / 1000);
	return `${percent}, ${seconds < 100 ? `${seconds} s` : `${Math.ceil(seconds / 60)} min`} left`;
}
