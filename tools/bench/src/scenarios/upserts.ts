import { type Bench, environmentOf, type Scenario, startReference, startService } from '../bench.js';
import { runChild } from '../child.js';
import { credentials } from '../database.js';
import { load } from '../load/load.js';
import { type Chats, upsertBodies } from '../load/upserts.js';
import type { DriverMessage } from '../references/direct-driver.js';
import { findPgbench, runPgbench } from '../references/pgbench.js';
import { type Comparison, compare } from '../report.js';
import { costOf, cpuOf, interleave, type Measurement, type Subject } from '../rounds.js';
import { takeSample } from '../sample.js';
import type { RunningServer } from '../servers.js';
import { comparePeaks } from './memory.js';

/** Database clients of the reference without HTTP: as many as the service has connections. */
const databaseClients = 10;

/** A server to compare our service with. */
interface Reference {
	name: string;
	program: string;
	/** Whether it stores the requests in the database. */
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
	{ name: 'upserts, many chats', run: (bench) => measureSubscribed(bench, 'upserts, many chats') },
];

const usualChats: Chats = { count: 100_000, subscriptions: 0 };
const manyChats: Chats = { count: 400_000, subscriptions: 100_000 };

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
	const database = withoutHttp(bench, usualChats);
	const { ours, against, peaks } = await measure(bench, scenario, 64, [noOp, noOpService], [database]);
	return [
		compareThroughput(scenario, ours, noOp.name, against(noOp), 0.33),
		compareThroughput(scenario, ours, noOpService.name, against(noOpService)),
		compareThroughput(scenario, ours, database.name, against(database), 1.3),
		...peaks,
	];
}

async function measureSubscribed(bench: Bench, scenario: string): Promise<Comparison[]> {
	const database = withoutHttp(bench, manyChats);
	const { ours, against, peaks } = await measure(bench, scenario, 64, [noOp, noOpService], [database], manyChats);
	return [
		compareThroughput(scenario, ours, noOpService.name, against(noOpService)),
		compareThroughput(scenario, ours, database.name, against(database), 1.1),
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
	chats = usualChats,
) {
	const service = await startService(bench, 'personal-contacts', scenario);
	const servers: RunningServer[] = [service];
	const subjects = [overHttp(bench, 'ours', service, connections, chats, true)];
	for (const { name, program, writes } of references) {
		const server = await startReference(bench, program, [], environmentOf(bench, 'personal-contacts'));
		servers.push(server);
		subjects.push(overHttp(bench, name, server, connections, chats, writes));
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
		reference: {
			name,
			values: reference.map(({ perSecond }) => perSecond),
			cpu: cpuOf(reference),
			cost: costOf(reference),
		},
		...(atLeast === undefined ? {} : { target: { of: 'ratio', atLeast } }),
		cpu: cpuOf(ours),
		cost: costOf(ours),
	});
}

const path = `/api/personal_contacts?${credentials}`;
const headers = { 'content-type': 'application/json' };

function overHttp(
	bench: Bench,
	name: string,
	server: RunningServer,
	connections: number,
	chats: Chats,
	writes: boolean,
): Subject<Measurement> {
	const { lifetime, settings, database } = bench;
	return {
		name,
		async measure() {
			if (writes) await database.resetPersonalContacts(chats);
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

/** The same statement for each upsert, from a client that does nothing else: pgbench, or the driver without pgbench. */
function withoutHttp({ lifetime, settings, database }: Bench, chats: Chats): Subject<Measurement> {
	const pgbench = findPgbench();
	const databaseUrl = database.urlFor('personal-contacts');
	const { seconds, warmUpSeconds } = settings;
	return {
		name: `${pgbench ? 'pgbench' : 'driver loop'}, one statement, ${databaseClients} clients`,
		async measure() {
			await database.resetPersonalContacts(chats);
			const perSecond = pgbench
				? await runPgbench(lifetime, pgbench, databaseUrl, databaseClients, chats.count, seconds)
				: await runDriver({ databaseUrl, clients: databaseClients, chats: chats.count, seconds, warmUpSeconds });
			const latency = (databaseClients / perSecond) * 1000;
			return { perSecond, latency: { p50: latency, p99: latency }, cpu: null, windows: [] };
		},
	};
	function runDriver(order: object): Promise<number> {
		return runChild(lifetime, 'references/direct-driver', order, (message: DriverMessage) => {
			if ('failure' in message) throw new Error(message.failure);
			return message.statements / message.seconds;
		});
	}
}

/** @throws Error when the response to an upsert isn't `saved` */
async function checkSaves({ url }: RunningServer): Promise<void> {
	// Not a chat with a subscription: these are multiples of four.
	const body = JSON.stringify({ chat_id: 1 });
	const { status, body: answer } = await takeSample({ url: url + path, method: 'POST', headers, body });
	if (status !== 200 || String(answer) !== '{"ok":"saved"}') throw new Error(`an upsert was answered with ${status}`);
}
