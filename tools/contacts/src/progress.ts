import cliProgress from 'cli-progress';
import { printNote } from './output.js';
import { streams } from './streams.js';

export interface Progress {
	/** @param done how much of the total */
	update(done: number, records: number): void;
	stop(): void;
}

/** Between two lines where there is no terminal. */
const lineIntervalMs = 10_000;

/**
 * Shows a bar on standard error if that is a terminal, and a plain line every 10 seconds elsewhere, with the rate and remaining
 * time. `total` is in the unit of `done`, such as bytes.
 */
export function createProgress(total: number): Progress {
	const begun = performance.now();
	const rate = (records: number) => Math.round(records / Math.max((performance.now() - begun) / 1000, 0.001));
	return streams().stderr.isTTY ? createBar(total, rate) : createLines(total, begun, rate);
}

function createBar(total: number, rate: (records: number) => number): Progress {
	const bar = new cliProgress.SingleBar(
		{
			format: '{bar} {percentage}% | {records} records | {rate} a second | {eta_formatted} left',
			barsize: 24,
			hideCursor: true,
			stream: streams().stderr,
			// Its handler would stop only the bar at a signal, and not the work.
			gracefulExit: false,
		},
		cliProgress.Presets.shades_classic,
	);
	const stop = () => {
		process.removeListener('exit', stop);
		for (const signal of signals) process.removeListener(signal, end);
		bar.stop();
	};
	/** Restores the cursor of the terminal, then ends as without a signal handler. */
	const end = (signal: NodeJS.Signals) => {
		stop();
		process.kill(process.pid, signal);
	};
	process.once('exit', stop);
	for (const signal of signals) process.once(signal, end);
	bar.start(total, 0, { records: 0, rate: 0 });
	return { update: (done, records) => bar.update(done, { records, rate: rate(records) }), stop };
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

function createLines(total: number, begun: number, rate: (records: number) => number): Progress {
	let next = begun + lineIntervalMs;
	return {
		update(done, records) {
			const now = performance.now();
			if (now < next) return;
			next = now + lineIntervalMs;
			const share = done / Math.max(total, 1);
			const left = share > 0 ? `, ${duration(((now - begun) / share) * (1 - share))} left` : '';
			printNote(`${records} records, ${Math.floor(100 * share)} %, ${rate(records)} a second${left}`);
		},
		stop: () => undefined,
	};
}

/** Milliseconds as seconds or minutes. */
function duration(milliseconds: number): string {
	const seconds = Math.max(0, Math.round(milliseconds / 1000));
	return seconds < 100 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
