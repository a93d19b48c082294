import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { type Database, type DatabaseOptions, openDatabase } from './database.js';

/** A database behind its own network, known by its application name. */
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

const answers = async (database: Database) => {
	const rows = await database.query((sql) => sql<{ pid: number }[]>`select pg_backend_pid() as pid`);
	return rows[0]?.pid;
};

test('connections that went silent for a moment are replaced long before the deadline', async () => {
	const { proxy, database } = await openThroughProxy('moment', { poolSize: 2, deadline: 10_000 });
	await Promise.all([answers(database), answers(database)]);
	proxy.blackhole();
	const waiting = Promise.all(Array.from({ length: 20 }, () => answers(database)));
	await proxy.restore();
	const begun = performance.now();
	await waiting;
	expect(performance.now() - begun).toBeLessThan(2500);
});

test('a statement that is merely slow keeps its connection', async () => {
	const { database } = await openThroughProxy('merely slow', { statementTimeout: 60_000 });
	const before = await answers(database);
	expect(await database.query((sql) => sql`select 1 as one from pg_sleep(2.5)`)).toEqual([{ one: 1 }]);
	expect(await answers(database)).toBe(before);
});

test('an unresponsive connection is ended alone', async () => {
	const { proxy, database } = await openThroughProxy('alone', { poolSize: 2, deadline: 10_000 });
	// The first connection is open when the network holds it back, the second is made afterwards.
	const first = await answers(database);
	proxy.holdBack();
	const held = answers(database);
	const second = await answers(database);
	expect(second).not.toBe(first);
	// The response came over a third one, which has taken the place of the first.
	expect([first, second]).not.toContain(await held);
	expect([await held, second]).toEqual(
		expect.arrayContaining(await Promise.all([answers(database), answers(database)])),
	);
});

test('statements go in the order in which they were asked for', async () => {
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

test('one statement after the other needs one connection', async () => {
	const { proxy, database } = await openThroughProxy('few', { poolSize: 10 });
	await Promise.all(Array.from({ length: 3 }, () => answers(database)));
	const pids = new Set<number | undefined>();
	for (let n = 0; n < 10; n++) pids.add(await answers(database));
	expect(pids.size).toBe(1);
	expect(proxy.taken).toBe(3);
});

test('connections to a server that became a primary only later are all replaced at the first refused write', async () => {
	const role = new URL(db.url).pathname.slice(1);
	await db.sql.unsafe(`
		create role ${role} login superuser password 'writer';
		alter role ${role} set default_transaction_read_only = on;
		create table written (n int)`);
	onTestFinished(() => db.sql.unsafe(`drop role ${role}`).then(() => undefined));
	const url = Object.assign(new URL(db.url), { username: role, password: 'writer' }).href;
	const database = openDatabase({ url, applicationName: 'standby', poolSize: 3 });
	onTestFinished(() => database.close());
	const before = await Promise.all(Array.from({ length: 3 }, () => answers(database)));
	await db.sql.unsafe(`alter role ${role} reset default_transaction_read_only`);

	await database.query((sql) => sql`insert into written values (1)`);
	const after = await Promise.all(Array.from({ length: 3 }, () => answers(database)));
	expect(after.filter((pid) => before.includes(pid))).toEqual([]);
	expect(await db.sql`select n from written`).toEqual([{ n: 1 }]);
});
