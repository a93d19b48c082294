import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type ServiceName, startProgram } from '../bench.js';
import { changeCompanyContact, readBackends } from '../data.sql.js';
import { type BenchDatabase, credentials, startDatabase } from '../database.js';
import type { Lifetime } from '../lifetime.js';
import type { RunningServer } from '../servers.js';
import { type SoakLoad, startSoakLoad } from './load.js';
import { chartOf, type SoakSample, services, soakTables, type Use } from './report.js';
import { requestKinds } from './requests.js';

export interface SoakSettings {
	minutes: number;
	/** Requests a second. */
	rate: number;
	/** Absolute path of the chart. */
	file: string;
}

const contacts = 2000;
const companies = 100;

/** Characters of a service's log that are kept, for the report of its end. */
const logTail = 4096;

const print = (text: string) => void process.stdout.write(`${text}\n`);

/**
 * Runs both services under a steady mixed load, and reports their memory, handles and connections.
 *
 * @param interrupted ends the run early, with a report of the samples so far
 * @returns whether everything was as expected
 */
export async function soak(settings: SoakSettings, lifetime: Lifetime, interrupted: AbortSignal): Promise<boolean> {
	const { minutes, rate, file } = settings;
	print('Starting ...');
	const database = await startDatabase(lifetime);
	await database.haveCompanyContacts(contacts);
	const running = {} as Record<ServiceName, RunningServer>;
	for (const name of services) {
		// Ctrl-C must not reach the services: requests in flight would fail.
		running[name] = await startProgram({ lifetime, database }, name, [], { detached: true, keepLast: logTail });
		print(`${name} is process ${running[name].pid}, at ${running[name].url}`);
	}
	const [company, personal] = [running['company-contacts'], running['personal-contacts']];
	const complaints: string[] = [];
	const broken = Promise.race([
		database.ended.then(() => 'PostgreSQL has ended.'),
		...services.map(async (name) => {
			const exit = await running[name].process.exit;
			return `${name} has ended (${exit}). It said last:\n${running[name].process.output()}`;
		}),
	]).then((what) => void complaints.push(what));

	const kinds = requestKinds({ companyUrl: company.url, personalUrl: personal.url, credentials, companies });
	const load = startSoakLoad(kinds, rate);
	print(`Running for ${minutes} minutes, ${rate} requests a second. Ctrl-C ends it before.`);
	let changed = 0;
	const changes = setInterval(() => {
		changed++;
		changeCompanyContact(database.sql, 1 + (changed % contacts), `Changed ${changed} times`).catch((error) =>
			complaints.push(`A contact could not be changed: ${error}`),
		);
	}, 1000);
	const samples: SoakSample[] = [];
	const sample = createSampler(running, database, load);
	// Every five seconds. In a short run more often, so that the chart has enough points.
	const intervalMs = Math.min(5000, minutes * 3000);
	const until = performance.now() + minutes * 60_000;
	while (performance.now() < until && !interrupted.aborted && complaints.length === 0) {
		const waited = delay(Math.min(intervalMs, until - performance.now()), undefined, { signal: interrupted });
		await Promise.race([waited.catch(() => undefined), broken]);
		if (complaints.length > 0) break;
		const taken = await sample().catch((error) => void complaints.push(`A sample could not be taken: ${error}`));
		if (taken === undefined) break;
		samples.push(taken);
		print(`${taken.seconds.toFixed(1)} s: ${load.expected} responses as expected, ${load.unexpected} unexpected`);
	}
	if (interrupted.aborted) print('Interrupted.');
	clearInterval(changes);
	await load.stop();
	// From here on the services end on purpose.
	const ended = [...complaints];
	for (const name of services) await running[name].stop();
	for (const name of ended.length > 0 ? [] : services) {
		const exit = await running[name].process.exit;
		if (exit !== 0) ended.push(`${name} ended with ${exit} after SIGTERM.`);
	}
	await lifetime.end();

	mkdirSync(dirname(file), { recursive: true });
	writeFileSync(file, chartOf(samples, `${minutes} minutes at ${rate} requests a second`));
	print(`\n${soakTables(samples, load)}The chart is in ${file}`);
	for (const complaint of ended) process.stderr.write(`${complaint}\n`);
	// Interrupted before the first response: nothing has failed.
	return ended.length === 0 && load.unexpected === 0 && (load.expected > 0 || interrupted.aborted);
}

/** Takes samples. Each counts the responses since the previous one. */
function createSampler(
	running: Record<ServiceName, RunningServer>,
	database: BenchDatabase,
	load: SoakLoad,
): () => Promise<SoakSample> {
	const begun = performance.now();
	let before = { seconds: 0, expected: 0, unexpected: 0 };
	return async () => {
		const backends = await readBackends(database.sql);
		const uses = {} as Record<ServiceName, Use>;
		for (const name of services) uses[name] = await useOf(running[name], backends.get(name) ?? 0);
		const now = { seconds: (performance.now() - begun) / 1000, expected: load.expected, unexpected: load.unexpected };
		const elapsed = now.seconds - before.seconds;
		const sample = {
			seconds: now.seconds,
			uses,
			expected: (now.expected - before.expected) / elapsed,
			unexpected: (now.unexpected - before.unexpected) / elapsed,
		};
		before = now;
		return sample;
	};
}

/** @throws Error when a metric is missing */
async function useOf({ url }: RunningServer, backends: number): Promise<Use> {
	const text = await (await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(5000) })).text();
	const value = (name: string) => {
		const found = text.split('\n').find((line) => line.startsWith(`${name} `));
		return found === undefined ? undefined : Number(found.slice(name.length + 1));
	};
	const needed = (name: string) => {
		const number = value(name);
		if (number === undefined) throw new Error(`there is no metric ${name}`);
		return number;
	};
	const resources = [...text.matchAll(/^nodejs_active_resources\{type="\w+"\} (\d+)$/gm)];
	return {
		resident: needed('process_resident_memory_bytes') / 2 ** 20,
		heap: needed('nodejs_heap_size_used_bytes') / 2 ** 20,
		descriptors: value('process_open_fds'),
		handles: resources.reduce((sum, [, count]) => sum + Number(count), 0),
		sockets: value('nodejs_active_resources{type="TCPSocketWrap"}') ?? 0,
		backends,
	};
}
