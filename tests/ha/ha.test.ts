import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Sql } from '@contacts/common/database/client.js';
import { isAlive } from '@contacts/testing/proc.js';
import { seededRandom } from '@contacts/testing/random.js';
import { watchStarvedTime } from '@contacts/testing/starved-time.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import postgres from 'postgres';
import { expect, test } from 'vitest';
import { again } from '../faults/database.js';
import { copy } from '../faults/judges/copy.js';
import { fresh } from '../faults/judges/fresh.js';
import { type Breach, isExcused } from '../faults/judges/judge.js';
import { mirror } from '../faults/judges/mirror.js';
import { revoked } from '../faults/judges/revoked.js';
import { saved } from '../faults/judges/saved.js';
import { skipped } from '../faults/judges/skipped.js';
import { startApplications } from './applications.js';
import { startDatabaseCluster } from './database-cluster.js';
import { breakThings, type Fault } from './faults.js';
import { startLoad } from './load.js';
import { createNetwork, type Machine } from './network.js';
import { evaluate, type Reign, type Run, table } from './report.js';

const judges = [saved, skipped, revoked, fresh, copy, mirror];
const minutes = Number(process.env.HA_MINUTES || 10);
const output = process.env.HA_OUTPUT || fileURLToPath(new URL('../../.local/ha', import.meta.url));

test(`every promise holds in ${minutes} minutes of process and machine faults`, async () => {
	const random = seededRandom();
	console.info(`FAULTS_SEED=${random.seed} HA_MINUTES=${minutes}`);
	const folder = mkdtempSync(join(tmpdir(), 'contacts-ha-'));
	chmodSync(folder, 0o755);
	const network = createNetwork();
	const removeAll = () => network.remove();
	process.once('exit', removeAll);
	const pids: number[] = [];
	const faults: Fault[] = [];
	let begun = 0;
	let result = '';
	try {
		const services = [network.machine('app1', 11), network.machine('app2', 12)] as const;
		const database = await startDatabaseCluster(network, folder, services);
		const applications = await startApplications(network, folder, database, services);
		const machines = [...database.machines, ...applications.machines];
		const processes = [...database.processes, ...applications.processes];

		begun = performance.now();
		const reigns: Reign[] = [];
		let stopped = false;
		const running = new Map<Machine, number[]>();
		const watch = async () => {
			for (; !stopped; await delay(200)) {
				for (const each of services) running.set(each, each.pids());
				const primary = await database.primary();
				if (reigns.at(-1)?.primary !== primary || reigns.length === 0) reigns.push({ at: performance.now(), primary });
			}
		};
		const watching = watch();
		const asOwner = <T>(work: (sql: Sql) => Promise<T>) =>
			again(async () => {
				const sql = postgres(await database.superuserUrl(), { max: 1, fetch_types: false });
				return work(sql).finally(() => sql.end({ timeout: 1 }));
			});
		// The judges compare lists with the CRM.
		const mirrored = () => asOwner((sql) => sql`select from company_contacts`);
		await waitUntil(async () => (await mirrored()).length === applications.crm.contacts.size, { timeoutMs: 60_000 });
		const [gateway = ''] = applications.gateways;
		const place = { ...applications, company: applications.gateways, gateway, losesNetwork: true, asOwner };
		const load = startLoad(applications.personal, applications.gateways);
		const machine = watchStarvedTime(() => services.flatMap((each) => running.get(each) ?? []));
		const sittings = await Promise.all(
			judges.map(async (judge) => ({ ...judge, ...(await judge.start(place, random)) })),
		);
		let broken: unknown;
		await breakThings(begun + minutes * 60_000, database, applications, random, faults).catch((error: unknown) => {
			broken = error;
		});
		await load.stop();
		stopped = true;
		await watching;
		machine.stop();

		const outages = { own: 0, changes: 0, awayMs: 0 };
		await Promise.all(sittings.map((sitting) => sitting.stop(outages))).catch((error: unknown) => {
			throw broken ?? error;
		});
		// These machines have no watchdog device: such a primary lets nobody write, but it may be read after another one was promoted.
		const isReadable = ({ begun: from, ended }: Breach) =>
			faults.some(
				(fault) => /^freeze patroni.*primary/.test(fault.what) && ended >= fault.begun && from <= fault.whole,
			);
		const breaches = sittings.flatMap(({ name, breaches }) =>
			breaches
				.filter((breach) => !isExcused(breach, machine))
				.filter((breach) => !(['fresh', 'revoked'].includes(name) && isReadable(breach)))
				.map(({ what, begun: from, ended }) => `${name}: ${what} (${from - begun} to ${ended - begun} ms)`),
		);
		const run: Run = { begun, ended: performance.now(), load, sittings, faults, reigns, machine };
		const outcome = evaluate(run);
		result = table(random.seed, run, outcome);
		console.info(result);
		expect(broken).toBe(undefined);
		expect(breaches).toEqual([]);
		for (const { name, judged } of sittings) expect([name, judged.length > minutes * 10]).toEqual([name, true]);
		expect(outcome.longestAfterPromotion).toBeLessThan(5000);
		expect(outcome.listsFailedWithoutFault).toBe(0);
		expect(outcome.admitted).toBeLessThanOrEqual(outcome.admittedLimit);

		pids.push(...machines.flatMap((machine) => machine.pids()));
		await Promise.all(processes.map((each) => each.stop()));
		await applications.close();
	} finally {
		network.remove();
		process.off('exit', removeAll);
		mkdirSync(output, { recursive: true });
		for (const name of readdirSync(folder)) if (name.endsWith('.log')) cpSync(join(folder, name), join(output, name));
		const seconds = (from: number, to: number) => Math.round((to - from) / 1000);
		const list = faults.map(
			({ what, begun: at, whole }) => `- ${seconds(begun, at)} s: ${what}; whole again after ${seconds(at, whole)} s`,
		);
		writeFileSync(join(output, 'result.md'), `${[result, '', ...list].join('\n')}\n`);
		rmSync(folder, { recursive: true, force: true });
	}
	await expect.poll(() => pids.filter(isAlive), { timeout: 10_000 }).toEqual([]);
});
