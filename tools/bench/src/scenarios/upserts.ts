import { type Bench, environmentOf, type Scenario, startReference, startService } from '../bench.js';
import { runChild } from '../child.js';
import { credentials } from '../database.js';
import { load } from '../load/load.js';
import { upsertBodies } from '../load/upserts.js';
import type { DriverMessage } from '../references/direct-driver.js';
import { findPgbench, runPgbench } from '../references/pgbench.js';
import { type Comparison, compare } from '../report.js';
import { cpuOf, interleave, type Measurement, type Subject } from '../rounds.js';
import { takeSample } from '../sample.js';
import type { RunningServer } from '../servers.js';
import { comparePeaks } from './memory.js';

/** Clients of the database in the reference without HTTP: as many as the service has connections. */
const databaseClients = 10;

/** A server that our service is compared with. */
interface Reference {
	name: string;
	program: string;
	/** Whether what it is sent gets into the database. */
	writes: boolean;
}

const noOp: Reference = { name: 'no-op Fastify route', program: 'no-op-fastify', writes: false };
const noOpService: Reference = { name: 'our service, saving nothing', program: 'no-op-service', writes: false };
const single: Reference = {
	name: 'our service, one statement a request',
	program: 'single-statement-service',
	writes: true,
};

export const upsertScenarios: Scenario[] = [
	{ name: 'upserts, 1 connection', run: (bench) => measureOne(bench, 'upserts, 1 connection') },
	{ name: 'upserts, 16 connections', run: (bench) => measureSome(bench, 'upserts, 16 connections') },
	{ name: 'upserts, 64 connections', run: (bench) => measureMany(bench, 'upserts, 64 connections') },
];

async function measureOne(bench: Bench, scenario: string): Promise<Comparison[]> {
	const { ours, against, peaks } = await measure(bench, scenario, 1, [noOp, single]);
	const byOne = against(single);
	const latency = compare({
		scenario,
		figure: 'latency',
		unit: 'ms',
		ours: ours.map((measurement) => measurement.latency.p50),
		reference: { name: single.name, values: byOne.map((measurement) => measurement.latency.p50), cpu: cpuOf(byOne) },
		target: { of: 'ratio', atMost: 1.05 },
		cpu: cpuOf(ours),
		notes: ['the latency is the median of a round'],
	});
	return [latency, compareThroughput(scenario, ours, noOp.name, against(noOp)), ...peaks];
}

async function measureSome(bench: Bench, scenario: string): Promise<Comparison[]> {
	const { ours, against, peaks } = await measure(bench, scenario, 16, [noOp]);
	return [compareThroughput(scenario, ours, noOp.name, against(noOp)), ...peaks];
}

async function measureMany(bench: Bench, scenario: string): Promise<Comparison[]> {
	const database = withoutHttp(bench);
	const { ours, against, peaks } = await measure(bench, scenario, 64, [noOp, noOpService], [database]);
	return [
		compareThroughput(scenario, ours, noOp.name, against(noOp), 0.65),
		compareThroughput(scenario, ours, noOpService.name, against(noOpService)),
		compareThroughput(scenario, ours, database.name, against(database), 1.4),
		...peaks,
	];
}

/** Measures our service and all references in turns. */
async function measure(
	bench: Bench,
	scenario: string,
	connections: number,
	references: Reference[],
	others: Subject<Measurement>[] = [],
) {
	const service = await startService(bench, 'personal-contacts', scenario);
	const servers: RunningServer[] = [service];
	const subjects = [overHttp(bench, 'ours', service, connections, true)];
	for (const { name, program, writes } of references) {
		const server = await startReference(bench, program, [], environmentOf(bench, 'personal-contacts'));
		servers.push(server);
		subjects.push(overHttp(bench, name, server, connections, writes));
	}
	for (const server of servers) await checkSaves(server);
	const measured = await interleave(
		Object.fromEntries([...subjects, ...others].map((subject) => [subject.name, subject])),
		bench.settings.rounds,
		(text) => bench.progress(`${scenario}, ${text}`),
	);
	for (const server of servers) await checkSaves(server);
	const against = ({ name }: { name: string }) => measured[name] ?? [];
	// Every scenario has the no-op route first.
	const [, server = service] = servers;
	return {
		ours: against({ name: 'ours' }),
		against,
		peaks: comparePeaks(scenario, service, { name: noOp.name, server }),
	};
}

function compareThroughput(
	scenario: string,
	ours: Measurement[],
	name: string,
	reference: Measurement[],
	atLeast?: number,
): Comparison {
	return compare({
		scenario,
		figure: 'throughput',
		unit: '/s',
		ours: ours.map(({ perSecond }) => perSecond),
		reference: { name, values: reference.map(({ perSecond }) => perSecond), cpu: cpuOf(reference) },
		...(atLeast === undefined ? {} : { target: { of: 'ratio', atLeast } }),
		cpu: cpuOf(ours),
	});
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

/** @throws Error when an upsert isn't answered with `saved` */
async function checkSaves({ url }: RunningServer): Promise<void> {
	const [body = ''] = upsertBodies(1);
	const { status, body: answer } = await takeSample({ url: url + path, method: 'POST', headers, body });
	if (status !== 200 || String(answer) !== '{"ok":"saved"}') throw new Error(`an upsert was answered with ${status}`);
}
