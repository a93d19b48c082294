import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Sql } from '@contacts/common/database/client.js';
import { isAlive } from '@contacts/testing/proc.js';
import { seededRandom } from '@contacts/testing/random.js';
import postgres from 'postgres';
import { expect, test } from 'vitest';
import { saved } from '../faults/judges/saved.js';
import { startApplications } from './applications.js';
import { startDatabaseCluster } from './database-cluster.js';
import { breakThings, type Fault } from './faults.js';
import { startLoad } from './load.js';
import { createNetwork } from './network.js';
import { evaluate, type Reign, type Run, table } from './report.js';

const minutes = Number(process.env.HA_MINUTES || 10);
const output = process.env.HA_OUTPUT || fileURLToPath(new URL('../../.local/ha', import.meta.url));

test(`no acknowledged write is lost in ${minutes} minutes of process and machine faults`, async () => {
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
		const watch = async () => {
			for (; !stopped; await delay(200)) {
				const primary = await database.primary();
				if (reigns.at(-1)?.primary !== primary || reigns.length === 0) reigns.push({ at: performance.now(), primary });
			}
		};
		const changeCrm = async () => {
			for (let n = 0; !stopped; n++, await delay(2000)) applications.crm.add({ lastName: `Added ${n}` });
		};
		const watching = Promise.all([watch(), changeCrm()]);
		async function asOwner<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
			const sql = postgres(await database.superuserUrl(), { max: 1, fetch_types: false });
			return work(sql).finally(() => sql.end());
		}
		const [gateway = ''] = applications.gateways;
		const place = { ...applications, company: applications.gateways, gateway, losesNetwork: true, asOwner };
		const load = startLoad(applications.personal, applications.gateways);
		const saving = await saved.start(place, random);
		let broken: unknown;
		await breakThings(begun + minutes * 60_000, database, applications, random, faults).catch((error: unknown) => {
			broken = error;
		});
		await load.stop();
		stopped = true;
		await watching;

		await saving.stop({ changes: 0, awayMs: 0 }).catch((error: unknown) => {
			throw broken ?? error;
		});
		const mirrored = async () => {
			const ids = await asOwner(
				(sql) => sql<{ id: number }[]>`select bitrix_id::float8 as id from company_contacts order by 1`,
			);
			return ids.map(({ id }) => id);
		};
		const run: Run = { begun, ended: performance.now(), load, saving, faults, reigns };
		const outcome = evaluate(run);
		result = table(random.seed, run, outcome);
		console.info(result);
		expect(broken).toBe(undefined);
		expect(saving.breaches).toEqual([]);
		expect(outcome.acknowledged).toBeGreaterThan(minutes * 60);
		expect(outcome.longestAfterPromotion).toBeLessThan(5000);
		expect(outcome.listsFailedWithoutFault).toBe(0);
		expect(outcome.admitted).toBeLessThanOrEqual(outcome.admittedLimit);
		await expect
			.poll(mirrored, { timeout: 30_000, interval: 500 })
			.toEqual([...applications.crm.contacts.keys()].sort((a, b) => a - b));

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
