import { createLogger } from '@contacts/common/observability/logger.js';
import { urlAs } from '@contacts/migrations/roles.js';
import { type StandIn, type StandInOptions, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { toCrmConfig } from './config.js';
import { synchronise } from './loop.js';
import { openSession } from './mirror/session.js';
import { emptyMirror, error, makeContact, storeEvents } from './testing/harness.js';

// The clock moves only when the synchroniser sleeps, or is set.
let time: number;
let standIn: StandIn;
const patient = { timeout: 60_000 };

/** A CRM with so many contacts, and a loop with an interval of five minutes. */
async function createLoop(contacts: number, options: StandInOptions = {}) {
	time = Date.now();
	const clock = {
		now: () => time,
		async sleep(milliseconds: number, signal?: AbortSignal) {
			signal?.throwIfAborted();
			// In long steps: the loop checks for work every second.
			time += Math.max(milliseconds, 30_000);
		},
	};
	standIn = await startStandIn({ plan: 'enterprise', clock: clock.now, ...options });
	for (let n = 1; n <= contacts; n++) standIn.add(makeContact(n));
	const stop = new AbortController();
	let loop: Promise<void> | undefined;
	onTestFinished(async () => {
		stop.abort();
		await loop;
		await standIn.close();
		await emptyMirror();
	});
	return (seams: Partial<Parameters<typeof synchronise>[0]> = {}) => {
		loop = synchronise({
			databaseUrl: urlAs(database.url, 'crm-sync', rolePassword),
			config: toCrmConfig({
				BITRIX24_WEBHOOK_URL: standIn.webhookUrl,
				BITRIX24_PLAN: 'enterprise',
				BITRIX24_INTERVAL_SECONDS: 300,
			}),
			clock,
			logger: createLogger({ name: 'sync', level: 'silent' }),
			signal: stop.signal,
			onConfigurationDiffers: () => undefined,
			...seams,
		});
	};
}

/** When each run began that reads the list from this place on. */
function beginnings(filter: '>id' | '>=updatedTime'): number[] {
	const begun: number[] = [];
	standIn.onRequest(({ params }) => {
		if (filter === '>id' ? params.filter?.[filter] === 0 : params.filter?.[filter] !== undefined) begun.push(time);
	});
	return begun;
}

test('an incomplete full run is repeated from the first contact on after ten minutes, not at once, until it is complete', async () => {
	const start = await createLoop(120);
	standIn.faults.always({ kind: 'empty-list' }, { when: ({ params }) => Number(params.filter?.['>id']) > 40 });
	const begun = beginnings('>id');
	start();
	await expect.poll(() => begun.length, patient).toBeGreaterThanOrEqual(4);
	for (const [index, at] of begun.slice(1).entries()) expect(at - (begun[index] ?? at)).toBeGreaterThanOrEqual(600_000);
	const mirrored = () => database.sql`select from company_contacts`;
	expect(await mirrored()).toHaveLength(0);
	standIn.faults.clear();
	await expect.poll(mirrored, patient).toHaveLength(120);
});

test('events that wait for the end of a rate-limit pause delay no run', async () => {
	// The CRM executes the method of the events for 480 seconds within ten minutes.
	const start = await createLoop(100, { operatingSecondsPerCall: { 'crm.item.get': 8 } });
	await storeEvents(...standIn.contacts.keys());
	const begun = beginnings('>id');
	const outcomes: string[] = [];
	start({ onRun: (outcome) => outcomes.push(outcome) });
	await expect.poll(() => database.sql`select from crm_event_inbox`, patient).toHaveLength(0);
	expect(begun.length).toBeGreaterThan(2);
	for (const [index, at] of begun.slice(1).entries()) expect(at - (begun[index] ?? 0)).toBeLessThan(420_000);
	expect(outcomes).not.toContain('failed');
});

test.each([
	['after a successful run', undefined],
	['while the CRM blocks it', 'INVALID_CREDENTIALS'],
	['while the CRM pauses its method', 'OPERATION_TIME_LIMIT'],
])('the next run is made in time when the clock is set back by a day %s', async (_, code) => {
	const start = await createLoop(1);
	if (code !== undefined) standIn.faults.always(error(code));
	const runs: number[] = [];
	start({
		onRun() {
			if (runs.length === 0) time -= 86_400_000;
			runs.push(time);
		},
	});
	await expect.poll(() => runs.length, patient).toBeGreaterThanOrEqual(2);
	const [first = 0, second = 0] = runs;
	expect(second - first).toBeLessThanOrEqual(15 * 60_000);
});

test('with another configuration than the mirror it never takes the lock, and says that it is blocked only where nobody works', async () => {
	const start = await createLoop(1);
	await database.sql`
		update crm_sync_state set configuration = '{"portal": "crm.example", "trouble_options": []}', watermark = now()`;
	const url = urlAs(database.url, 'crm-sync', rolePassword);
	const blocked = async () => (await database.sql`select blocked_by from crm_sync_state`)[0]?.blocked_by;
	const working = await openSession(url);
	const differences: string[] = [];
	start({ onConfigurationDiffers: (error) => differences.push(...error.differences) });
	await expect
		.poll(() => differences, patient)
		.toEqual(['BITRIX24_WEBHOOK_URL is crm.example there and 127.0.0.1 here']);
	expect(await blocked()).toBe(null);
	await working?.close();
	await expect.poll(blocked, patient).toBe('configuration_differs');
	const other = await openSession(url);
	expect(other).toBeDefined();
	await other?.close();
	expect(standIn.requests).toEqual([]);
	expect(differences).toHaveLength(1);
});

test('it leaves the lock to others when the mirror gets another configuration while it works', async () => {
	const start = await createLoop(1);
	let runs = 0;
	const differences: string[] = [];
	start({
		onRun: () => void runs++,
		onConfigurationDiffers: (error) => differences.push(...error.differences),
	});
	await expect.poll(() => runs, patient).toBeGreaterThan(0);
	await database.sql`update crm_sync_state set configuration = configuration || '{"portal": "crm.example"}'`;
	await expect
		.poll(() => differences, patient)
		.toEqual(['BITRIX24_WEBHOOK_URL is crm.example there and 127.0.0.1 here']);
	const other = await openSession(urlAs(database.url, 'crm-sync', rolePassword));
	expect(other).toBeDefined();
	await other?.close();
});
