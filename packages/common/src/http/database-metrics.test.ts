import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { Registry } from 'prom-client';
import { expect, onTestFinished } from 'vitest';
import type { DatabaseOptions } from '../database/database.js';
import { openStatePoll } from '../database/state-poll.js';
import { holdLock, open, sleep } from '../database/testing/open.js';
import { measureDatabase } from './metrics.js';

test.beforeAll(async () => {
	// A client that has no connection yet can't reserve one.
	await db.sql`select 1`;
});

/** A database and a reader of its metrics: it returns the value of the one sample that begins with this text. */
function openMeasured(options: Partial<DatabaseOptions> = {}) {
	const database = open('metrics', options);
	const registry = new Registry();
	const poll = openStatePoll({
		url: options.url ?? db.url,
		applicationName: 'metrics poll',
		watched: [],
		clock: () => performance.now(),
	});
	onTestFinished(() => poll.close());
	measureDatabase(database, poll, registry);
	return {
		database,
		async value(sample: string) {
			const line = (await registry.metrics()).split('\n').find((each) => each.startsWith(`${sample} `));
			return Number(line?.slice(sample.length + 1));
		},
	};
}

const failures = (reason: string) => `database_errors_total{reason="${reason}"}`;

test('the metrics have the duration of each statement and its wait for a connection', async () => {
	const { database, value } = openMeasured();
	await Promise.all([sleep(database, 0.2), sleep(database, 0.1), sleep(database, 0.1)]);
	expect(await value('database_statement_duration_seconds_count')).toBe(3);
	// The statements took 0.2, 0.2 + 0.1 and 0.3 + 0.1 seconds, of which they waited 0, 0.2 and 0.3.
	const took = await value('database_statement_duration_seconds_sum');
	const waited = await value('database_connection_wait_seconds_sum');
	expect(waited).toBeGreaterThan(0.45);
	expect(took - waited).toBeGreaterThan(0.35);
});

test('the metrics have the used connections and the waiting statements, and return to 0', async () => {
	const { database, value } = openMeasured({ poolSize: 2 });
	const release = await holdLock(7);
	const held = Array.from({ length: 5 }, () => database.query((sql) => sql`select pg_advisory_xact_lock_shared(7)`));
	expect(database.connections).toMatchObject({ limit: 2, inUse: 2, waiting: 3 });
	await release();
	await Promise.all(held);
	expect(database.connections).toMatchObject({ inUse: 0, waiting: 0 });
	expect(await value('database_connections_in_use')).toBe(0);
	expect(await value('database_connections_limit')).toBe(2);
	await expect.poll(() => value('database_up')).toBe(1);
});

test('the metrics count every failure by its reason', async () => {
	const { database, value } = openMeasured({ deadlineMs: 500, maxCallers: 2, statementTimeoutMs: 60_000 });
	for (const reason of ['busy', 'deadline', 'connection', 'statement']) expect(await value(failures(reason))).toBe(0);

	await expect(database.query((sql) => sql`select 1 / 0`)).rejects.toThrow();
	expect(await value(failures('statement'))).toBe(1);
	const late = [sleep(database, 5), sleep(database, 5)].map((each) => each.catch(() => undefined));
	await expect(sleep(database, 0)).rejects.toThrow();
	await Promise.all(late);
	expect(database.connections).toMatchObject({ inUse: 0, waiting: 0 });
	expect(await value(failures('busy'))).toBe(1);
	expect(await value(failures('deadline'))).toBe(2);
});

test('the metrics show an unreachable database', async () => {
	const proxy = await startTcpProxy(db.url);
	onTestFinished(() => proxy.close());
	const { database, value } = openMeasured({ url: proxy.through(db.url) });
	await expect.poll(() => value('database_up')).toBe(1);
	proxy.cut();
	await expect.poll(() => value('database_up')).toBe(0);
	await expect(sleep(database, 0)).rejects.toThrow();
	expect(await value(failures('connection'))).toBeGreaterThan(0);
});
