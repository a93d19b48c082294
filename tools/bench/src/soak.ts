import { memoryOf } from '@contacts/testing/proc.js';
import { addMeasurement, type Context, measureScenario } from './compare.js';
import { type Servers, services, startServer } from './servers.js';
import { createFigures, type Result } from './table.js';

/** Enough for a median of the first quarter of the run and of the last one. */
const minCycles = 8;
const maxSecondsEach = 10;

/**
 * Runs all scenarios in turn with the same processes, while a contact changes every second. The first quarter of the run is
 * the baseline of the last one.
 *
 * @throws Error when a measurement has failed three times, which it does when a process has ended
 */
export async function soak({ minutes, ...context }: Context & { minutes: number }): Promise<Result> {
	const { ours, scenarios, cleanup, progress } = context;
	const seconds = Math.min(maxSecondsEach, (minutes * 60) / minCycles / scenarios.length);
	const cycles = Math.round((minutes * 60) / seconds / scenarios.length);
	progress(`${cycles} cycles of ${scenarios.length} scenarios of ${Number(seconds.toFixed(2))} s`);
	const servers = {} as Servers;
	for (const name of services) servers[name] = await startServer(cleanup, ours.program(name));
	const { sql } = ours.database;
	const timer = setInterval(() => {
		sql`update company_contacts set perplexity_reason = ${new Date().toISOString()} where bitrix_id = 1000`.catch(
			(error: Error) => progress(`a contact could not be changed: ${error.message}`),
		);
	}, 1000);
	cleanup.push(() => clearInterval(timer));

	const figures = createFigures();
	for (let cycle = 1; cycle <= cycles; cycle++) {
		// What lies between is neither the beginning nor the end.
		const side = cycle <= cycles / 4 ? 'baseline' : cycle > (cycles * 3) / 4 ? 'ours' : undefined;
		for (const scenario of scenarios) {
			const measured = await measureScenario({ ...context, seconds }, scenario, servers, ours.database);
			if (side !== undefined) addMeasurement(figures, side, scenario, measured);
		}
		for (const name of services) {
			const memory = memoryOf(servers[name].pid)?.resident ?? Number.NaN;
			progress(`cycle ${cycle} of ${cycles}: ${name} ${memory.toFixed(0)} MiB`);
			if (side !== undefined) figures.add(side, name, 'memory', 'MiB', memory);
		}
	}
	return { baseline: 'the first quarter of the run', rounds: cycles, seconds, rows: figures.rows() };
}
