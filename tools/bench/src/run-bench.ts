import { cpus, loadavg, totalmem } from 'node:os';
import type { Scenario, Settings } from './bench.js';
import { startDatabase } from './database.js';
import { createLifetime, type Lifetime } from './lifetime.js';
import { findWrk } from './load/wrk.js';
import type { Report } from './report.js';
import { listScenarios, requestScenarios } from './scenarios/lists.js';
import { million } from './scenarios/million.js';
import { pollers } from './scenarios/pollers.js';
import { startUp } from './scenarios/start-up.js';
import { upsertScenarios } from './scenarios/upserts.js';

/** In the order in which they run. Scenarios with the same data are together. */
export const scenarios: Scenario[] = [
	startUp,
	...listScenarios,
	...requestScenarios,
	pollers,
	...upsertScenarios,
	million,
];

/**
 * Runs the scenarios one after the other. Reports one that can't be measured as a failure, and still runs the others.
 *
 * @throws Error when there is no database to measure with
 */
export async function runBench(
	settings: Settings,
	lifetime: Lifetime,
	progress: (text: string) => void,
): Promise<Report> {
	const begun = performance.now();
	const [load = 0] = loadavg();
	progress('starting PostgreSQL');
	const database = await startDatabase(lifetime);
	if (database.inMemory) progress('WARNING: the temporary folder is in memory, fsync costs nothing: set TMPDIR');
	const report: Report = {
		version: 2,
		machine: {
			date: new Date().toISOString(),
			platform: `${process.platform} ${process.arch}`,
			cpu: cpus()[0]?.model ?? 'unknown',
			cores: cpus().length,
			memory_mib: Math.round(totalmem() / 1_048_576),
			load_average: Math.round(load * 100) / 100,
			node: process.version,
			postgresql: database.version,
			postgresql_settings: database.settings,
			data_in_memory: database.inMemory,
		},
		settings: {
			rounds: settings.rounds,
			seconds: settings.seconds,
			warm_up_seconds: settings.warmUpSeconds,
			profiled: settings.profiles !== undefined,
			generator: findWrk() === undefined ? 'autocannon' : 'wrk',
		},
		comparisons: [],
		repeated: [],
		failures: [],
		seconds: 0,
	};
	for (const scenario of scenarios.filter(({ name }) => settings.scenarios.includes(name))) {
		// Everything that a scenario started ends with it, even when it fails.
		const own = createLifetime();
		const end = lifetime.own(own.end);
		try {
			report.comparisons.push(
				...(await scenario.run({ settings, database, lifetime: own, repeated: report.repeated, progress })),
			);
		} catch (error) {
			if (lifetime.ending) throw error;
			const message = error instanceof Error ? error.message : String(error);
			progress(`${scenario.name} FAILED: ${message}`);
			report.failures.push({ scenario: scenario.name, message });
		} finally {
			await end();
		}
	}
	report.seconds = Math.round((performance.now() - begun) / 1000);
	return report;
}
