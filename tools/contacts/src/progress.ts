import cliProgress from 'cli-progress';

export interface Progress {
	update(bytes: number, records: number): void;
	stop(): void;
}

/** A bar on standard error where that is a terminal, a plain line every 10 seconds elsewhere. `total` is in bytes. */
export function createProgress(total: number): Progress {
	if (process.stderr.isTTY) {
		const bar = new cliProgress.SingleBar(
			{
				format: '{bar} {percentage}% | {records} records | {eta_formatted} left',
				hideCursor: true,
				stream: process.stderr,
			},
			cliProgress.Presets.shades_classic,
		);
		bar.start(total, 0, { records: 0 });
		return { update: (bytes, records) => bar.update(bytes, { records }), stop: () => bar.stop() };
	}
	let next = Date.now() + 10_000;
	return {
		update(bytes, records) {
			if (Date.now() < next) return;
			next = Date.now() + 10_000;
			process.stderr.write(`${records} records, ${Math.floor((100 * bytes) / Math.max(total, 1))} %\n`);
		},
		stop: () => undefined,
	};
}
