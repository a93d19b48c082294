import { urlAs } from '@contacts/common/database/roles.js';
import { createLogger } from '@contacts/common/observability/logger.js';
import { readVariables } from '@contacts/common/process/config.js';
import type { Clock } from '@contacts/crm-sync/bitrix24/clock.js';
import { type CrmConfig, crmVariables, toCrmConfig } from '@contacts/crm-sync/config.js';
import { type LoopOptions, synchroniseForEver } from '@contacts/crm-sync/loop.js';
import { mirrorConfiguration } from '@contacts/crm-sync/mirror-configuration.js';
import type { SyncRequest } from '@contacts/crm-sync/requests.sql.js';
import { openSession, type Session } from '@contacts/crm-sync/session.js';
import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { createTestDatabase, rolePassword, type TestDatabase } from '@contacts/testing/database.js';
import postgres from 'postgres';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type AskOptions, askSynchroniser } from './sync-request.js';

let database: TestDatabase;
let standIn: StandIn;
let operator: postgres.Sql;
const full: SyncRequest = { kind: 'full', bitrix_id: null, confirm_mass_delete: false };
const patient = { timeout: 20_000 };
/** What a test has started and may still run. */
let running: (() => Promise<void>)[];

beforeEach(async () => {
	running = [];
	database = await createTestDatabase();
	standIn = await startStandIn({ plan: 'enterprise' });
	for (let n = 1; n <= 300; n++) standIn.add({ lastName: `Contact ${n}` });
	operator = postgres(urlAs(database.url, 'operator', rolePassword), { max: 1, fetch_types: false });
});
afterEach(async () => {
	for (const end of running) await end();
	await operator?.end();
	await standIn?.close();
	await database?.drop();
});

/** A clock that advances only during sleeps, by at least `minMs`. `onSleep` runs meanwhile. */
function createClock(
	onSleep = () => new Promise<unknown>((resolve) => setImmediate(resolve)),
	minMs = 1,
): Clock & { readonly passed: number } {
	const begun = Date.now();
	let time = begun;
	return {
		now: () => time,
		get passed() {
			return time - begun;
		},
		async sleep(milliseconds, signal) {
			signal?.throwIfAborted();
			await onSleep();
			time += Math.max(milliseconds, minMs);
		},
	};
}

function config(more: Record<string, string> = {}): CrmConfig {
	const values = { BITRIX24_WEBHOOK_URL: standIn.webhookUrl, BITRIX24_PLAN: 'enterprise', ...more };
	return toCrmConfig(readVariables(crmVariables, values));
}

function ask(clock: Clock, more: Partial<AskOptions> = {}) {
	return askSynchroniser({
		sql: operator,
		url: urlAs(database.url, 'operator', rolePassword),
		request: full,
		configuration: mirrorConfiguration(config()),
		clock,
		signal: new AbortController().signal,
		onProgress: () => undefined,
		onBusy: () => undefined,
		...more,
	});
}

/** A synchroniser in this process, with its own clock. */
function startLoop(more: Partial<LoopOptions> = {}): { stop(): Promise<void> } {
	const stop = new AbortController();
	const loop = synchroniseForEver({
		databaseUrl: urlAs(database.url, 'crm-sync', rolePassword),
		config: { ...config(), intervalMs: 86_400_000_000 },
		clock: createClock(),
		logger: createLogger({ name: 'sync', level: 'silent' }),
		signal: stop.signal,
		onWaiting: () => undefined,
		onWorking: () => undefined,
		onConfigurationDiffers: () => undefined,
		...more,
	});
	const end = async () => {
		stop.abort();
		await loop;
	};
	running.push(end);
	return { stop: end };
}

async function lockedByOther(): Promise<Session> {
	const session = await openSession(database.url);
	if (session === undefined) throw new Error('the lock is taken');
	running.push(() => session.close());
	return session;
}

test('the command shows the progress of the synchroniser', async () => {
	startLoop();
	await vi.waitUntil(async () => (await database.sql`select from company_contacts`).length === 300, patient);
	const told: [number, number | undefined][] = [];
	// A page takes longer than the polling interval of the command.
	standIn.faults.always({ kind: 'slow', milliseconds: 100 }, { method: 'crm.item.list' });
	const result = await ask(createClock(), { onProgress: (seen, total) => told.push([seen, total]) });
	expect(result).toMatchObject({ outcome: { kind: 'full', seen: 300 } });
	expect(told.length).toBeGreaterThan(0);
	for (const [seen, total] of told) expect([seen > 0, seen <= 300, total]).toEqual([true, true, 300]);
});

test('a request that nobody begins is withdrawn after a minute', async () => {
	await lockedByOther();
	const clock = createClock();
	await expect(ask(clock)).rejects.toThrow(
		/^Nobody has begun with it within 60 seconds, though the role postgres \(.*\) holds .* Nothing was done\.$/,
	);
	expect(clock.passed).toBeGreaterThanOrEqual(60_000);
	expect(clock.passed).toBeLessThan(62_000);
	expect(await database.sql`select from crm_sync_requests`).toHaveLength(0);
});

test('the command waits while the holder of the lock runs a pass, and says so once', async () => {
	const session = await lockedByOther();
	await database.sql`insert into crm_sync_runs (kind) values ('full')`;
	const busy: string[] = [];
	const clock = createClock(async () => {
		if (clock.passed > 120_000) await session.close();
	});
	const taken = await ask(clock, { onBusy: (what) => busy.push(what) });
	expect(clock.passed).toBeGreaterThan(120_000);
	expect(busy).toEqual(['full pass']);
	// Nobody else holds the lock any more, so the command gets it.
	if (!('run' in taken)) throw new Error('it was done by somebody');
	expect(await openSession(database.url)).toBe(undefined);
	await taken.close();
	expect(await database.sql`select from crm_sync_requests`).toHaveLength(0);
});

test.each(['update', 'delete'])(
	'a command that fails to take over (%s) leaves the lock to others',
	async (statement) => {
		await database.sql.unsafe(`
		create function refuse() returns trigger language plpgsql as $$ begin
			if exists (
				select from pg_locks where locktype = 'advisory'
				and database = (select oid from pg_database where datname = current_database())
			) then raise exception 'refused'; end if;
			return case when tg_op = 'DELETE' then old else new end;
		end $$;
		create trigger refuse before ${statement} on crm_sync_requests for each row execute function refuse()`);
		await expect(ask(createClock())).rejects.toThrow('refused');
		await lockedByOther();
	},
);

test('the command gives up fifteen minutes after a synchroniser’s last request to the portal', async () => {
	await lockedByOther();
	const clock = createClock(() => database.sql`update crm_sync_requests set taken_at = now()`, 10_000);
	await expect(ask(clock)).rejects.toThrow(/has done nothing for 15 minutes/);
	expect(clock.passed).toBeGreaterThan(900_000);
});

test('a request fails when a restore deletes it', async () => {
	await lockedByOther();
	const clock = createClock(() => database.sql`delete from crm_sync_requests`);
	await expect(ask(clock)).rejects.toThrow(/^The request was deleted, perhaps by a restore/);
});

test('a synchroniser that stops leaves the request to the command', async () => {
	const loop = startLoop();
	await vi.waitUntil(async () => (await database.sql`select from company_contacts`).length === 300, patient);
	standIn.faults.always({ kind: 'hang' }, { method: 'crm.item.list' });
	const answer = ask(createClock());
	await vi.waitUntil(
		async () => (await database.sql`select from crm_sync_requests where taken_at is not null`).length === 1,
		patient,
	);
	await loop.stop();
	const taken = await answer;
	if (!('run' in taken)) throw new Error('it was done by somebody');
	await taken.close();
});

test('a synchroniser whose configuration differs from that of the mirror changes nothing, releases the lock, and works once the operator accepts it', async () => {
	const first = startLoop();
	await vi.waitUntil(async () => (await database.sql`select from company_contacts`).length === 300, patient);
	await first.stop();
	const requests = standIn.requests.length;

	const refused: string[][] = [];
	let working = 0;
	const russian = config({ BITRIX24_DEFAULT_COUNTRY: 'RU' });
	const second = startLoop({
		config: russian,
		onConfigurationDiffers: ({ differences }) => refused.push(differences),
		onWorking: () => working++,
	});
	const state = async () => (await database.sql`select blocked_by, configuration from crm_sync_state`)[0];
	await vi.waitUntil(async () => (await state())?.blocked_by === 'configuration_differs', patient);
	await expect.poll(() => refused).toEqual([['BITRIX24_DEFAULT_COUNTRY is not set there and RU here']]);
	expect([working, standIn.requests.length]).toEqual([0, requests]);

	// Accepts the configuration, as "contacts sync --remap" does.
	await database.sql`
		update crm_sync_state set configuration = ${JSON.stringify(mirrorConfiguration(russian))}::text::jsonb`;
	await vi.waitUntil(() => working === 1, patient);
	await vi.waitUntil(async () => (await state())?.blocked_by === null, patient);
	expect(refused).toHaveLength(1);
	await second.stop();
});
