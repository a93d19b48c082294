import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { type Database, type DatabaseOptions, openDatabase } from './database.js';

/** A database that is reached through its own proxy. The application name labels its sessions. */
async function openThroughProxy(
	applicationName: string,
	options: Partial<DatabaseOptions> = {},
): Promise<{ proxy: TcpProxy; database: Database }> {
	const proxy = await startTcpProxy(db.url);
	onTestFinished(() => proxy.close());
	const database = openDatabase({ url: proxy.through(db.url), applicationName, poolSize: 1, ...options });
	onTestFinished(() => database.close());
	return { proxy, database };
}

const readPid = async (database: Database) => {
	const rows = await database.query((sql) => sql<{ pid: number }[]>`select pg_backend_pid() as pid`);
	return rows[0]?.pid;
};

test('unresponsive connections are replaced long before the deadline', async () => {
	const { proxy, database } = await openThroughProxy('moment', { poolSize: 2, deadlineMs: 50_000 });
	await Promise.all([readPid(database), readPid(database)]);
	proxy.blackhole();
	const waiting = Promise.all(Array.from({ length: 20 }, () => readPid(database)));
	await proxy.restore();
	const begun = performance.now();
	await waiting;
	const taken = performance.now() - begun;
	console.info(`unresponsive connections were replaced after ${taken.toFixed(0)} ms`);
	// Ten times what it takes: a busy machine may be slow. None has waited for its deadline.
	expect(taken).toBeLessThan(20_000);
});

test('a slow statement keeps its connection', async () => {
	const { database } = await openThroughProxy('merely slow', { statementTimeoutMs: 60_000 });
	const before = await readPid(database);
	expect(await database.query((sql) => sql`select 1 as one from pg_sleep(2.5)`)).toEqual([{ one: 1 }]);
	expect(await readPid(database)).toBe(before);
});

test('only the unresponsive connection is closed', async () => {
	const { proxy, database } = await openThroughProxy('alone', { poolSize: 2, deadlineMs: 10_000 });
	// The network stalls the first connection. The second one is opened afterwards.
	const first = await readPid(database);
	proxy.holdBack();
	const held = readPid(database);
	const second = await readPid(database);
	expect(second).not.toBe(first);
	// The response came over a third connection, which replaced the first.
	expect([first, second]).not.toContain(await held);
	const later = await Promise.all([readPid(database), readPid(database)]);
	expect(later.toSorted()).toEqual([await held, second].toSorted());
});

test('statements run in the order in which they were requested', async () => {
	const { database } = await openThroughProxy('order', { poolSize: 2 });
	const order: number[] = [];
	await Promise.all(
		Array.from({ length: 50 }, (_, n) =>
			database.query((sql) => {
				order.push(n);
				return sql`select 1`;
			}),
		),
	);
	expect(order).toEqual(Array.from({ length: 50 }, (_, n) => n));
});

test('sequential statements need only one connection', async () => {
	const { proxy, database } = await openThroughProxy('few', { poolSize: 10 });
	await Promise.all(Array.from({ length: 3 }, () => readPid(database)));
	const pids = new Set<number | undefined>();
	for (let n = 0; n < 10; n++) pids.add(await readPid(database));
	expect(pids.size).toBe(1);
	expect(proxy.taken).toBe(3);
});

test('the first refused write replaces all connections to a server that was a standby when they were opened', async () => {
	const role = new URL(db.url).pathname.slice(1);
	await db.sql.unsafe(`
		create role ${role} login superuser password 'writer';
		alter role ${role} set default_transaction_read_only = on;
		create table written (n int)`);
	onTestFinished(() => db.sql.unsafe(`drop role ${role}`).then(() => undefined));
	const url = Object.assign(new URL(db.url), { username: role, password: 'writer' }).href;
	const database = openDatabase({ url, applicationName: 'standby', poolSize: 3 });
	onTestFinished(() => database.close());
	const before = await Promise.all(Array.from({ length: 3 }, () => readPid(database)));
	await db.sql.unsafe(`alter role ${role} reset default_transaction_read_only`);

	await database.query((sql) => sql`insert into written values (1)`);
	const after = await Promise.all(Array.from({ length: 3 }, () => readPid(database)));
	expect(after.filter((pid) => before.includes(pid))).toEqual([]);
	expect(await db.sql`select n from written`).toEqual([{ n: 1 }]);
});
