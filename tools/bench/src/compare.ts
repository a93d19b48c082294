import { memoryOf } from '@contacts/testing/proc.js';
import type { BenchDatabase } from './database.js';
import { type Measurement, measure } from './load.js';
import type { Scenario } from './scenarios.js';
import { type Servers, type Side, services, startServer } from './servers.js';
import { createFigures, type Figures, type Result } from './table.js';

export interface Context {
	ours: Side;
	scenarios: Scenario[];
	/** Length of one measurement. */
	seconds: number;
	/** What ends everything that was started, the last one first. */
	cleanup: (() => unknown)[];
	signal: AbortSignal;
	progress(text: string): void;
}

/** Enough for V8 to compile what a request runs. */
const warmUpSeconds = 1;

/** A disk that pauses for half a second makes a service refuse upserts with 503. */
const maxAttempts = 3;

/**
 * Measures both sides in pairs. Each round has new processes, so that chance in one of them counts once.
 *
 * @throws Error when a measurement has failed three times
 */
export async function compare(context: Context & { baseline: Side; rounds: number }): Promise<Result> {
	const { baseline, rounds, seconds, scenarios, cleanup, progress } = context;
	const sides = { ours: context.ours, baseline };
	const figures = createFigures();
	for (let round = 1; round <= rounds; round++) {
		const servers = { ours: {} as Servers, baseline: {} as Servers };
		for (const name of services) {
			for (const side of ['ours', 'baseline'] as const) {
				const server = await startServer(cleanup, sides[side].program(name, servers.ours[name]?.url));
				servers[side][name] = server;
				figures.add(side, name, 'start-up', 'ms', server.startUpMs);
			}
		}
		for (const scenario of scenarios) {
			progress(`round ${round} of ${rounds}: ${scenario.name}`);
			// The order alternates: neither side is always first after a pause.
			const order = round % 2 === 1 ? (['ours', 'baseline'] as const) : (['baseline', 'ours'] as const);
			const measureSide = (side: 'ours' | 'baseline', duration: number) =>
				measureScenario({ ...context, seconds: duration }, scenario, servers[side], sides[side].database);
			for (const side of order) await measureSide(side, warmUpSeconds);
			for (const side of order) addMeasurement(figures, side, scenario, await measureSide(side, seconds));
		}
		for (const name of services) {
			for (const side of ['ours', 'baseline'] as const) {
				const memory = memoryOf(servers[side][name].pid)?.resident ?? Number.NaN;
				figures.add(side, name, 'memory after the load', 'MiB', memory);
				await servers[side][name].stop();
			}
		}
	}
	return { baseline: baseline.name, rounds, seconds, rows: figures.rows() };
}

/** Measures one scenario on one side. */
export async function measureScenario(
	{ signal, progress, seconds }: Context,
	{ name, service, connections, requests }: Scenario,
	servers: Servers,
	database: BenchDatabase,
): Promise<Measurement> {
	const server = servers[service];
	for (let attempt = 1; ; attempt++) {
		try {
			const load = { server, connections, requests: await requests(server.url, database.credentials), seconds };
			// So that no measurement pays for the dirty pages of the one before it.
			if (service === 'personal-contacts') await database.sql`checkpoint`;
			return await measure(load, database, signal);
		} catch (error) {
			if (attempt === maxAttempts || signal.aborted) throw error;
			progress(`${name} is measured again: ${(error as Error).message}`);
		}
	}
}

export function addMeasurement(
	figures: Figures,
	side: 'ours' | 'baseline',
	{ name, service }: Scenario,
	{ requestsPerSecond, serviceMicroseconds, databaseMicroseconds }: Measurement,
): void {
	figures.add(side, name, 'requests', '/s', requestsPerSecond);
	figures.add(side, name, 'service CPU', 'µs/request', serviceMicroseconds);
	if (service === 'personal-contacts') figures.add(side, name, 'PostgreSQL CPU', 'µs/request', databaseMicroseconds);
}
