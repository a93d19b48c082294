import { counted, printNote, showStatus } from './output.js';
import { streams } from './streams.js';

export interface Progress {
	/** @param done how much of the total */
	update(done: number, records: number): void;
	stop(): void;
}

/** Between two lines where there is no terminal, and between two states of the line on a terminal. */
const intervalMs = { lines: 10_000, terminal: 200 };

const barLength = 24;

/**
 * Shows the progress on standard error: in one line with a bar if that is a terminal, and as a plain line every 10 seconds
 * elsewhere, with the rate and remaining time. `total` is in the unit of `done`, such as bytes; undefined: unknown.
 */
export function createProgress(total: number | undefined): Progress {
	const begunAt = performance.now();
	const { isTTY = false, columns = 80 } = streams().stderr;
	const interval = isTTY ? intervalMs.terminal : intervalMs.lines;
	let nextAt = begunAt + interval;
	let latest = { done: 0, records: 0 };

	function describe(): string {
		const seconds = Math.max((performance.now() - begunAt) / 1000, 0.001);
		const share = total === undefined ? undefined : Math.min(1, latest.done / Math.max(total, 1));
		const parts = [counted(latest.records, 'record')];
		if (share !== undefined) parts.push(`${Math.floor(100 * share)} %`);
		parts.push(`${Math.round(latest.records / seconds)} a second`);
		if (share) parts.push(`${duration((seconds / share) * (1 - share))} left`);
		return parts.join(', ');
	}
	function bar(): string {
		if (total === undefined) return '';
		const full = Math.min(barLength, Math.floor((barLength * latest.done) / Math.max(total, 1)));
		return `${'█'.repeat(full)}${'░'.repeat(barLength - full)} `;
	}
	// A line that is wider than the terminal could not be replaced.
	const show = () => showStatus(`${bar()}${describe()}`.slice(0, columns - 1));

	if (isTTY) show();
	return {
		update(done, records) {
			latest = { done, records };
			const now = performance.now();
			if (now < nextAt) return;
			nextAt = now + interval;
			if (isTTY) show();
			else printNote(describe());
		},
		stop() {
			if (isTTY) printNote(`${bar()}${describe()}`);
		},
	};
}

function duration(seconds: number): string {
	return seconds < 100 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}
