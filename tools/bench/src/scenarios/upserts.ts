import { findPgbench, runPgbench } from '../baselines/pgbench.js';
import { type Bench, environmentOf, type Scenario, startBaseline, startService } from '../bench.js';
import { resetPersonalContacts } from '../data.sql.js';
import { credentials } from '../database.js';
import { load } from '../load/load.js';
import { type Chats, upsertBodies } from '../load/upserts.js';
import { type Comparison, compare, type Target } from '../report.js';
import { compareLoads, costOf, cpuOf, interleave, type Measurement, type Subject } from '../rounds.js';
import { takeSample } from '../sample.js';
import type { RunningServer } from '../servers.js';
import { comparePeaks } from './memory.js';

/** Clients of pgbench: as many as the service has connections. */
const databaseClients = 10;

const pgbench = `pgbench, one statement, ${databaseClients} clients`;

/** A server to compare our service with. */
interface Baseline {
	name: string;
	/** The program, and its arguments. */
	command: [program: string, ...args: string[]];
	/** Whether it stores the requests in the database. */
	writes: boolean;
	target?: Target;
}

const noOp: Baseline = {
	name: 'no-op Fastify route',
	command: ['no-op-fastify'],
	writes: false,
	target: { of: 'ratio', atLeast: 0.33 },
};
const noOpService: Baseline = {
	name: 'our service, saving nothing',
	command: ['personal-contacts', 'nothing'],
	writes: false,
};
const single: Baseline = {
	name: 'our service, one statement a request',
	command: ['personal-contacts', 'one-statement'],
	writes: true,
};

interface UpsertScenario {
	name: string;
	connections: number;
	chats: Chats;
	baselines: Baseline[];
	/** The lowest throughput, as a multiple of pgbench's. Undefined: not compared with it. */
	ofPgbench?: number;
}

const manyChats: Chats = { count: 400_000, subscriptions: 100_000 };
const fewChats: Chats = { count: 100_000, subscriptions: 0 };

export const upsertScenarios: Scenario[] = [
	{ name: 'upserts, 1 connection', connections: 1, chats: fewChats, baselines: [single] },
	{
		name: 'upserts, 64 connections',
		connections: 64,
		chats: fewChats,
		baselines: [noOp, noOpService],
		ofPgbench: 1.3,
	},
	{ name: 'upserts, many chats', connections: 64, chats: manyChats, baselines: [noOpService], ofPgbench: 1.1 },
].map((scenario): Scenario => ({ name: scenario.name, run: (bench) => measureUpserts(bench, scenario) }));

/** Measures our service and all baselines in turns. */
async function measureUpserts(bench: Bench, scenario: UpsertScenario): Promise<Comparison[]> {
	const { name, chats, baselines } = scenario;
	const service = await startService(bench, 'personal-contacts', name);
	const servers: RunningServer[] = [service];
	const subjects = [overHttp(bench, 'ours', service, scenario, true)];
	for (const baseline of baselines) {
		const server = await startBaseline(bench, baseline.command, environmentOf(bench, 'personal-contacts'));
		servers.push(server);
		subjects.push(overHttp(bench, baseline.name, server, scenario, baseline.writes));
	}
	const program = scenario.ofPgbench === undefined ? undefined : findPgbench();
	if (program !== undefined) subjects.push(withoutHttp(bench, program, chats));
	for (const server of servers) await checkSaves(server);
	const measured = await interleave(
		bench,
		name,
		bench.settings.rounds,
		Object.fromEntries(subjects.map((subject) => [subject.name, subject])),
	);
	for (const server of servers) await checkSaves(server);

	const of = (subject: string) => measured[subject] ?? [];
	return [
		...baselines.map((baseline) =>
			baseline === single
				? compareLatencies(name, of('ours'), of(single.name))
				: compareLoads(name, of('ours'), { ...baseline, measured: of(baseline.name) }, baseline),
		),
		...(program === undefined ? [] : [compareWithPgbench(scenario, of('ours'), of(pgbench))]),
		...comparePeaks(name, service),
	];
}

function compareWithPgbench({ name, ofPgbench = 0 }: UpsertScenario, ours: Measurement[], measured: Measurement[]) {
	return compareLoads(name, ours, { name: pgbench, measured }, { target: { of: 'ratio', atLeast: ofPgbench } });
}

function compareLatencies(scenario: string, ours: Measurement[], baseline: Measurement[]): Comparison {
	const medians = (measurements: Measurement[]) => measurements.map(({ latency }) => latency.p50);
	return compare({
		scenario,
		figure: 'latency',
		unit: 'ms',
		ours: medians(ours),
		baseline: {
			name: single.name,
			values: medians(baseline),
			cpu: cpuOf(baseline),
			cost: costOf(baseline),
		},
		target: { of: 'ratio', atMost: 1.05 },
		cpu: cpuOf(ours),
		cost: costOf(ours),
		notes: ['the latency is the median of a round'],
	});
}

const path = `/api/personal_contacts?${credentials}`;
const headers = { 'content-type': 'application/json' };

function overHttp(
	bench: Bench,
	name: string,
	server: RunningServer,
	{ connections, chats }: UpsertScenario,
	writes: boolean,
): Subject<Measurement> {
	const { lifetime, settings, database } = bench;
	return {
		name,
		async measure() {
			if (writes) await resetPersonalContacts(database.sql, chats);
			return load(lifetime, {
				pid: server.pid,
				url: server.url,
				method: 'POST',
				headers,
				requests: upsertBodies(chats).map((body) => ({ path, body })),
				connections,
				warmUpSeconds: settings.warmUpSeconds,
				seconds: settings.seconds,
				status: 200,
				bytes: 14,
			});
		},
	};
}

/** The same statement for each upsert, from a client that does nothing else. */
function withoutHttp({ lifetime, settings, database }: Bench, program: string, chats: Chats): Subject<Measurement> {
	const databaseUrl = database.urlFor('personal-contacts');
	return {
		name: pgbench,
		async measure() {
			await resetPersonalContacts(database.sql, chats);
			const order = { databaseUrl, clients: databaseClients, chats: chats.count, seconds: settings.seconds };
			const perSecond = await runPgbench(lifetime, program, order);
			const latency = (databaseClients / perSecond) * 1000;
			return { perSecond, latency: { p50: latency, p99: latency }, cpu: null, windows: [] };
		},
	};
}

/** @throws Error when the response to an upsert isn't `saved` */
async function checkSaves({ url }: RunningServer): Promise<void> {
	// Not a chat with a subscription: these are multiples of four.
	const body = JSON.stringify({ chat_id: 1 });
	const { status, body: response } = await takeSample({ url: url + path, method: 'POST', headers, body });
	if (status !== 200 || String(response) !== '{"ok":"saved"}') throw new Error(`the status of an upsert was ${status}`);
}
