import { freePort } from '@contacts/local-postgres/ports.js';
import { memoryOf } from '@contacts/testing/proc.js';
import type { BenchDatabase } from './database.js';
import { type Measurement, measure } from './load.js';
import { type Scenario, services } from './scenarios.js';
import { type Servers, type Side, startServer } from './servers.js';

const sides = ['ours', 'baseline'] as const;
type SideName = (typeof sides)[number];

/** What was measured of each side in each round, by its name. */
type Figures = Map<string, Record<SideName, number[]>>;

interface Comparison extends Record<SideName, Side> {
	scenarios: Scenario[];
	rounds: number;
	/** Length of one measurement. */
	seconds: number;
	/** What ends everything that was started, the last one first. */
	cleanup: (() => unknown)[];
	signal: AbortSignal;
	progress(text: string): void;
}

/** V8 has compiled what a request runs after some 1.5 s of requests; before, they cost up to 40 % more. */
const warmUpSeconds = 2;

/**
 * Of each scenario in each round. Their median counts: on a shared machine one measurement of ten costs up to 40 % more
 * than the others of the same process.
 */
const measurementsOfRound = 5;

/** A disk that pauses for half a second makes a service refuse upserts with 503. */
const maxAttempts = 3;

/**
 * Measures both sides in pairs. Each round has new processes, so that chance in one of them counts once, and its medians
 * are one pair.
 *
 * @throws Error when a measurement has failed three times
 */
export async function compare(comparison: Comparison): Promise<Figures> {
	const { rounds, seconds, scenarios, cleanup, progress } = comparison;
	const figures: Figures = new Map();
	/** What the system does not report is left out. */
	const add = (name: string, side: SideName, value: number | undefined) => {
		if (value === undefined || Number.isNaN(value)) return;
		const figure = figures.get(name) ?? { ours: [], baseline: [] };
		figure[side].push(value);
		figures.set(name, figure);
	};
	for (let round = 1; round <= rounds; round++) {
		const servers = { ours: {} as Servers, baseline: {} as Servers };
		// A process that is the first of two to start costs 1 to 3 % more, so each side is the first in every other round.
		const startOrder = round % 2 === 0 ? sides : sides.toReversed();
		for (const name of services) {
			const ports = { ours: await freePort(), baseline: await freePort() };
			for (const side of startOrder) {
				const server = await startServer(cleanup, ports[side], comparison[side].program(name, ports.ours));
				servers[side][name] = server;
				add(`${name}: start-up, ms`, side, server.startUpMs);
			}
		}
		for (const scenario of scenarios) {
			progress(`round ${round} of ${rounds}: ${scenario.name}`);
			const measureSide = (side: SideName, duration: number) =>
				measureScenario(comparison, scenario, servers[side], comparison[side].database, duration);
			for (const side of startOrder) await measureSide(side, warmUpSeconds);
			const measured = { ours: [] as Measurement[], baseline: [] as Measurement[] };
			for (let pair = 1; pair <= measurementsOfRound; pair++) {
				// The order alternates: neither side is always first after a pause.
				const order = (round + pair) % 2 === 0 ? sides : sides.toReversed();
				for (const side of order) measured[side].push(await measureSide(side, seconds));
			}
			for (const side of sides) {
				const medianOf = (figure: keyof Measurement) => median(measured[side].map((each) => each[figure]));
				add(`${scenario.name}: requests/s`, side, medianOf('requestsPerSecond'));
				add(`${scenario.name}: CPU of the service, µs`, side, medianOf('serviceMicroseconds'));
				if (scenario.service === 'personal-contacts')
					add(`${scenario.name}: CPU of PostgreSQL, µs`, side, medianOf('databaseMicroseconds'));
			}
		}
		for (const name of services) {
			for (const side of sides) {
				add(`${name}: memory afterwards, MiB`, side, memoryOf(servers[side][name].pid).resident);
				await servers[side][name].stop();
			}
		}
	}
	return figures;
}

/** Measures one scenario on one side. */
async function measureScenario(
	{ signal, progress }: Comparison,
	{ name, service, connections, requests }: Scenario,
	servers: Servers,
	database: BenchDatabase,
	seconds: number,
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

/** The rows of the table, by the name of the figure. */
export function rowsOf(figures: Figures): Record<string, object> {
	return Object.fromEntries(
		[...figures].map(([name, { ours, baseline }]) => {
			// The speed of a machine changes from pair to pair.
			const ratios = ours.map((value, round) => value / (baseline[round] ?? Number.NaN));
			const higher = `${ratios.filter((ratio) => ratio > 1).length} of ${ratios.length}`;
			const [own, other, ratio] = [ours, baseline, ratios].map((values) => Number(median(values).toPrecision(3)));
			return [name, { ours: own, baseline: other, ratio, 'ours higher': higher }];
		}),
	);
}

function median(values: readonly number[]): number {
	const sorted = values.toSorted((a, b) => a - b);
	const middle = (sorted.length - 1) / 2;
	return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2;
}
