import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { CommanderError } from 'commander';
import type { Settings } from './bench.js';
import { createLifetime } from './lifetime.js';
import { createProgram } from './program.js';
import { runBench } from './run-bench.js';
import { soak } from './soak/soak.js';
import { tableOf } from './table.js';

const lifetime = createLifetime();
const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupted.abort());
process.on('uncaughtException', (error) => void stop(`error: ${error.stack}`));

const program = createProgram({
	bench: run,
	async soak(settings) {
		process.exitCode = (await soak(settings, lifetime, interrupted.signal)) ? 0 : 1;
	},
});
try {
	await program.parseAsync(process.argv);
} catch (error) {
	// The signal handler ends the process once everything has ended.
	if (!lifetime.ending) {
		await endEverything();
		process.exit(exitCode(error));
	}
}

async function stop(why: string): Promise<void> {
	process.stderr.write(`${why}\n`);
	await endEverything();
	process.exit(1);
}

async function endEverything(): Promise<void> {
	await lifetime.end().catch((error: Error) => process.stderr.write(`error: ${error.message}\n`));
}

async function run(settings: Settings): Promise<void> {
	interrupted.signal.addEventListener('abort', () => void stop('interrupted'));
	const begun = performance.now();
	const progress = (text: string) => {
		const seconds = Math.round((performance.now() - begun) / 1000);
		process.stderr.write(`${String(seconds).padStart(4)} s  ${text}\n`);
	};
	const report = await runBench(settings, lifetime, progress);
	await lifetime.end();
	mkdirSync(dirname(settings.json), { recursive: true });
	writeFileSync(settings.json, `${JSON.stringify(report, null, '\t')}\n`);
	process.stdout.write(`${tableOf(report)}Written for programs: ${settings.json}\n`);
	if (settings.profiles !== undefined) process.stdout.write(`Profiles of our services: ${settings.profiles}\n`);
	process.exitCode = report.failures.length > 0 ? 1 : 0;
}

function exitCode(error: unknown): number {
	// Commander has printed it already.
	if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
	process.stderr.write(`error: ${error instanceof Error ? error.message : String(error)}\n`);
	return 1;
}
