import { addProject } from '@contacts/testing/app.js';
import { residentMiB } from '@contacts/testing/proc.js';
import type { RunningService } from '@contacts/testing/services.js';
import { watchStarvedTime } from '@contacts/testing/starved-time.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { startService } from '../services.js';

let service: RunningService;

test.beforeAll(async () => {
	await addProject(database.sql, 'valid', 'valid-key');
	service = await startService('company-contacts', { TRUST_PROXY: 'loopback' });
});
afterAll(() => service?.stop());

/** Statements that the service's database has run so far, except those of this test. */
async function statements(): Promise<number> {
	const [row] = await database.sql<{ count: number }[]>`
		select sum(xact_commit + xact_rollback)::int as count from pg_stat_database where datname = current_database()`;
	return row?.count ?? 0;
}

test('five seconds of wrong keys at full speed cause no query and no memory growth, and a valid project is served', async () => {
	const flood = async (seconds: number) => {
		const end = performance.now() + seconds * 1000;
		const statuses = new Map<number, number>();
		const valid: number[] = [];
		const memory: number[] = [];
		const guess = async (worker: number) => {
			for (let index = 0; performance.now() < end; index++) {
				const address = `2001:db8:${worker}:${(index % 60_000).toString(16)}::1`;
				const response = await fetch(
					`${service.url}/api/company_contacts.list?project=valid&api_key=guess-${worker}-${index}`,
					{
						headers: { 'x-forwarded-for': index % 2 ? address : '203.0.113.7' },
					},
				);
				await response.arrayBuffer();
				statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
			}
		};
		const ask = async () => {
			while (performance.now() < end) {
				const response = await fetch(
					`${service.url}/api/company_contacts.list?company_id=1&project=valid&api_key=valid-key`,
				);
				await response.arrayBuffer();
				valid.push(response.status);
				memory.push(residentMiB(service.pid));
				await new Promise((resolve) => setTimeout(resolve, 210));
			}
		};
		const machine = watchStarvedTime(() => [service.pid]);
		await Promise.all([...Array.from({ length: 32 }, (_, worker) => guess(worker)), ask()]);
		machine.stop();
		// The share of the time in which neither the service nor its clients waited for a processor.
		const share = machine.own({ begun: end - seconds * 1000, ended: end }) / (seconds * 1000);
		// The lowest of the second half: just before a collection there is much garbage, which is no growth.
		return { statuses, valid, share, memory: Math.min(...memory.slice(memory.length / 2)) };
	};

	const { memory: memoryBefore } = await flood(2);
	const queriesBefore = await statements();
	const { statuses, valid, share, memory: memoryAfter } = await flood(5);
	await database.sql`select pg_stat_force_next_flush()`;
	const queries = (await statements()) - queriesBefore;

	const guesses = [...statuses.values()].reduce((sum, count) => sum + count, 0);
	console.log(
		`${guesses} wrong keys in ${(100 * share).toFixed(0)} % of the time (${[...statuses].map(([status, count]) => `${status}: ${count}`).join(', ')}), ${valid.length} valid, ${queries} transactions, ` +
			`memory ${memoryBefore.toFixed(0)} MiB, then ${memoryAfter.toFixed(0)} MiB`,
	);
	expect(new Set(statuses.keys())).toEqual(new Set([401, 429]));
	expect(guesses).toBeGreaterThan(250 * share);
	// What remains are the valid project's lists and the checks of the key version, a few a second.
	expect(queries).toBeLessThan(75);
	expect(new Set(valid)).toEqual(new Set([200]));
	expect(valid.length).toBeGreaterThan(15 * share);
	expect(memoryAfter - memoryBefore).toBeLessThan(40);
});
