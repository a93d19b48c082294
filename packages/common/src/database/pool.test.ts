import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../testing/database.js';
import { startTcpProxy, type TcpProxy } from '../testing/tcp-proxy.js';
import { type Database, type DatabaseOptions, openDatabase } from './database.js';

let db: TestDatabase;

beforeAll(async () => {
	db = await createTestDatabase();
});
afterAll(() => db?.drop());

/** A database behind a network of its own, known by its application name. */
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

test.each([
	['given up', 300],
	['found silent', 5000],
])('a statement that was %s is not executed after a newer one', async (name, deadline) => {
	await db.sql`create table ${db.sql(name)} as select 0 as version`;
	const { proxy, database } = await openThroughProxy(name, { deadline });
	const save = (version: number) => database.query((sql) => sql`update ${sql(name)} set version = ${version}::int`);
	// Prepared, so that the next time it is sent as a whole at once.
	await save(0);
	proxy.holdBack();
	await save(1).catch(() => undefined);
	await expect.poll(() => save(2).catch(() => undefined), { timeout: 3000 }).toEqual([]);
	await proxy.restore();
	// The old connection is gone from the server: whatever it was sent was executed, or never will be.
	await expect
		.poll(() => db.sql`select from pg_stat_activity where application_name = ${name}`, { timeout: 3000 })
		.toHaveLength(1);
	expect(await db.sql`select version from ${db.sql(name)}`).toEqual([{ version: 2 }]);
});
