import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { cpuSecondsOf } from '@contacts/testing/proc.js';
import { type Bench, type Scenario, startService } from '../bench.js';
import { changeCompanyContact } from '../data.sql.js';
import { credentials } from '../database.js';
import { compare } from '../report.js';
import { interleave, type Measurement, type Subject } from '../rounds.js';
import { takeSample } from '../sample.js';
import type { RunningServer } from '../servers.js';
import { quantile } from '../statistics.js';
import { comparePeaks } from './memory.js';

const name = '10,000 pollers';
const contacts = 10_000;
/** Every poller sends a request this often. */
const intervalSeconds = 10;
/** As a gateway keeps them. */
const connections = 64;

/** Clients that each follow the changes with their own cursor, while one contact changes every second. */
export const pollers: Scenario = {
	name,
	long: true,
	async run(bench) {
		await bench.database.haveCompanyContacts(contacts);
		const service = await startService(bench, 'company-contacts', name);
		const subject = (count: number): Subject<Measurement> => ({
			name: `${count} pollers`,
			measure: () => poll(bench, service, count),
		});
		const measured = await interleave(bench, name, Math.min(3, bench.settings.rounds), {
			few: subject(100),
			ours: subject(10_000),
		});
		const p99 = (all: Measurement[]) => all.map(({ latency }) => latency.p99);
		return [
			compare({
				scenario: name,
				figure: 'latency',
				unit: 'ms',
				ours: p99(measured.ours),
				baseline: { name: '100 pollers', values: p99(measured.few), cpu: measured.few[0]?.cpu ?? null },
				cpu: measured.ours[0]?.cpu ?? null,
				notes: [
					`99 % of the requests were faster. Each client polls every ${intervalSeconds} seconds, a contact changes every second`,
					`${Math.round(measured.ours[0]?.perSecond ?? 0)} requests a second on ${connections} connections, all with status 200`,
				],
			}),
			...comparePeaks(name, service),
		];
	},
};

interface Page {
	cursor: string;
	has_more: boolean;
	changes: unknown[];
}

async function poll({ database, lifetime }: Bench, server: RunningServer, count: number): Promise<Measurement> {
	const agent = new Agent({ keepAlive: true, maxSockets: connections });
	const release = lifetime.own(() => agent.destroy());
	const read = async (cursor: string): Promise<Page> => {
		const url = `${server.url}/api/company_contacts.changes?${credentials}${cursor && `&cursor=${cursor}`}`;
		const { status, body } = await takeSample({ url, agent });
		if (status !== 200) throw new Error(`a poller got the status ${status} in place of 200`);
		return JSON.parse(body.toString()) as Page;
	};
	let { cursor: last, has_more: more } = await read('');
	while (more) ({ cursor: last, has_more: more } = await read(last));

	let changed = 0;
	const changing = setInterval(() => {
		changed++;
		// Another text than in the other measurements. A write that fails shows as a poller without changes.
		changeCompanyContact(database.sql, 1 + (changed % contacts), `Changed at ${Date.now()}`).catch(() => undefined);
	}, 1000);
	const latencies: number[] = [];
	let seen = 0;
	async function follow(cursor: string): Promise<string> {
		const begun = performance.now();
		const page = await read(cursor);
		latencies.push(performance.now() - begun);
		seen += page.changes.length;
		return page.cursor;
	}
	try {
		const cpu = [cpuSecondsOf(server.pid) ?? Number.NaN, process.cpuUsage()] as const;
		const begun = performance.now();
		// Three polls of each, evenly distributed over the interval.
		const each = Array.from({ length: count }, async (_, index) => {
			let cursor = last;
			for (let turn = 0; turn < 3; turn++) {
				await delay(begun + (turn + index / count) * intervalSeconds * 1000 - performance.now());
				cursor = await follow(cursor);
			}
		});
		await Promise.all(each);
		const seconds = (performance.now() - begun) / 1000;
		// Half of the pollers have waited for one interval at least when the last change comes.
		if (seen < count * intervalSeconds) throw new Error(`${count} pollers saw only ${seen} changes`);
		const { user, system } = process.cpuUsage(cpu[1]);
		const used = (cpuSecondsOf(server.pid) ?? Number.NaN) - cpu[0];
		const sorted = Float64Array.from(latencies).sort();
		return {
			perSecond: latencies.length / seconds,
			latency: { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) },
			cpu: { server: Number.isNaN(used) ? null : used / seconds, generator: (user + system) / 1e6 / seconds },
			windows: [],
		};
	} finally {
		clearInterval(changing);
		await release();
	}
}
