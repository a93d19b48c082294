import { type Bench, environmentOf, type Scenario, startReference, startService } from '../bench.js';
import { runChild } from '../child.js';
import { credentials } from '../database.js';
import { load } from '../load/load.js';
import { upsertBodies } from '../load/upserts.js';
import type { DriverMessage } from '../references/direct-driver.js';
import { findPgbench, runPgbench } from '../references/pgbench.js';
import { type Comparison, type ComparisonInput, compare } from '../report.js';
import { cpuOf, interleave, type Measurement, type Subject } from '../rounds.js';
import { takeSample } from '../sample.js';
import type { RunningServer } from '../servers.js';
import { comparePeaks } from './memory.js';

const names = {
	noOp: 'no-op Fastify route',
	noOpService: 'our service, saving nothing',
	single: 'our service, one statement a request',
};

/** Clients of the database in the reference without HTTP: as many as the service has connections. */
const databaseClients = 10;

export const upsertScenarios: Scenario[] = [1, 16, 64].map((connections) => ({
	name: connections === 1 ? 'upserts, 1 connection' : `upserts, ${connections} connections`,
	run: (bench) => measureUpserts(bench, connections),
}));

async function measureUpserts(bench: Bench, connections: number): Promise<Comparison[]> {
	const scenario = connections === 1 ? 'upserts, 1 connection' : `upserts, ${connections} connections`;
	const environment = environmentOf(bench, 'personal-contacts');
	const ours = await startService(bench, 'personal-contacts', scenario);
	const noOp = await startReference(bench, 'no-op-fastify');
	const single = await startReference(bench, 'single-statement-service', [], environment);
	const noOpService = await startReference(bench, 'no-op-service', [], environment);
	const servers = [ours, noOp, single, noOpService];
	for (const server of servers) await checkSaves(server);

	const subjects: Record<string, Subject<Measurement>> = {
		noOp: overHttp(bench, names.noOp, noOp, connections, false),
		ours: overHttp(bench, 'ours', ours, connections, true),
	};
	if (connections === 1) subjects.single = overHttp(bench, names.single, single, connections, true);
	if (connections === 64) {
		subjects.noOpService = overHttp(bench, names.noOpService, noOpService, connections, false);
		subjects.database = withoutHttp(bench);
	}
	const measured = await interleave(subjects, bench.settings.rounds, (text) => bench.progress(`${scenario}, ${text}`));
	for (const server of servers) await checkSaves(server);

	const mine = measured.ours ?? [];
	const throughput = (reference: string, target?: number): Comparison[] => {
		const theirs = measured[reference];
		if (theirs === undefined) return [];
		return [
			compare({
				scenario,
				figure: 'throughput',
				unit: '/s',
				ours: mine.map(({ perSecond }) => perSecond),
				reference: {
					name: subjects[reference]?.name ?? reference,
					values: theirs.map(({ perSecond }) => perSecond),
					cpu: cpuOf(theirs),
				},
				...(target === undefined ? {} : { target: { of: 'ratio', atLeast: target } }),
				cpu: cpuOf(mine),
			} satisfies ComparisonInput),
		];
	};
	const comparisons = [
		...throughput('noOp', connections === 64 ? 0.65 : undefined),
		...throughput('noOpService'),
		...throughput('database', 1.4),
		...(measured.single ? [compareLatency(scenario, mine, measured.single)] : []),
		...comparePeaks(scenario, ours, { name: names.noOp, server: noOp }),
	];
	return comparisons;
}

const path = `/api/personal_contacts?${credentials}`;
const headers = { 'content-type': 'application/json' };

function overHttp(
	bench: Bench,
	name: string,
	server: RunningServer,
	connections: number,
	writes: boolean,
): Subject<Measurement> {
	const { lifetime, settings, database } = bench;
	return {
		name,
		async measure() {
			if (writes) await database.resetPersonalContacts();
			return load(lifetime, server.pid, {
				url: server.url + path,
				method: 'POST',
				headers,
				upserts: true,
				connections,
				warmUpSeconds: settings.warmUpSeconds,
				seconds: settings.seconds,
				status: 200,
				bytes: 14,
			});
		},
	};
}

/** The same statement for each upsert, from a client that does nothing else: pgbench, or the driver where there is none. */
function withoutHttp({ lifetime, settings, database }: Bench): Subject<Measurement> {
	const pgbench = findPgbench();
	const databaseUrl = database.urlFor('personal-contacts');
	const { seconds, warmUpSeconds } = settings;
	return {
		name: `${pgbench ? 'pgbench' : 'driver loop'}, one statement, ${databaseClients} clients`,
		async measure() {
			await database.resetPersonalContacts();
			const perSecond = pgbench
				? await runPgbench(lifetime, pgbench, databaseUrl, databaseClients, seconds)
				: await runDriver({ databaseUrl, clients: databaseClients, seconds, warmUpSeconds });
			const latency = (databaseClients / perSecond) * 1000;
			return { perSecond, latency: { p50: latency, p99: latency }, cpu: null };
		},
	};
	function runDriver(order: object): Promise<number> {
		return runChild(lifetime, 'references/direct-driver', order, (message: DriverMessage) => {
			if ('failure' in message) throw new Error(message.failure);
			return message.statements / message.seconds;
		});
	}
}

function compareLatency(scenario: string, ours: Measurement[], single: Measurement[]): Comparison {
	return compare({
		scenario,
		figure: 'latency',
		unit: 'ms',
		ours: ours.map(({ latency }) => latency.p50),
		reference: { name: names.single, values: single.map(({ latency }) => latency.p50), cpu: cpuOf(single) },
		target: { of: 'ratio', atMost: 1.05 },
		cpu: cpuOf(ours),
		notes: ['median latency of a request'],
	});
}

/** @throws Error when an upsert isn't answered with `saved` */
async function checkSaves({ url }: RunningServer): Promise<void> {
	const [body = ''] = upsertBodies(1);
	const { status, body: answer } = await takeSample({ url: url + path, method: 'POST', headers, body });
	if (status !== 200 || String(answer) !== '{"ok":"saved"}') throw new Error(`an upsert was answered with ${status}`);
}
