import { database as db, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';
import type { Database, DatabaseOptions } from './database.js';
import { type Deadline, startDeadline } from './deadline.js';
import { causeOf, openThroughProxy, respond as readPid } from './testing/open.js';

test('one unresponsive connection among ten costs the other nine nothing, and only it is closed', async () => {
	const { proxy, database } = await openThroughProxy('nine', { poolSize: 10, deadlineMs: 60_000 });
	// The network stalls the first connection. The others are opened afterwards.
	const first = await readPid(database);
	proxy.holdBack();
	const held = readPid(database);
	const pause = async () => {
		const rows = await database.query(
			(sql) => sql<{ pid: number }[]>`select pg_backend_pid() as pid from pg_sleep(0.2)`,
		);
		return rows[0]?.pid;
	};
	const nine = new Set(await Promise.all(Array.from({ length: 9 }, pause)));
	expect(nine.size).toBe(9);
	expect(nine).not.toContain(first);
	const served = await Promise.all(Array.from({ length: 300 }, () => readPid(database)));

	// The response came over an eleventh connection, which replaced the first.
	const replaced = await held;
	expect([first, ...nine]).not.toContain(replaced);
	expect(served.filter((pid) => pid !== replaced && !nine.has(pid))).toEqual([]);
	expect(new Set(await Promise.all(Array.from({ length: 10 }, pause)))).toEqual(new Set([...nine, replaced]));
	expect(proxy.taken).toBe(11);
});

test('what is out of time once it has a connection is not sent, and the connection stays open', async () => {
	const { database } = await openThroughProxy('too late', { poolSize: 1 });
	const pid = await readPid(database);
	const read = (deadline: Deadline) => database.read((sql) => sql`select 1`, { deadline, isOnNew: false });
	const write = (deadline: Deadline) =>
		database.write((sql) => sql<{ outcome: 'saved'; clock: number }[]>`select 'saved' as outcome, 0 as clock`, {
			deadline,
		});
	for (const send of [read, write]) {
		const now = performance.now();
		const late = database.admit<unknown>(() => send({ startedAt: now - 4000, expiresAt: now - 1 }));
		expect(await causeOf(late)).toBe('QUERY_DEADLINE');
		expect(await readPid(database)).toBe(pid);
	}
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

describe('a server that is read-only', () => {
	/** A database whose user can write only after `makeWritable`. */
	async function openReadOnly(applicationName: string, options: Partial<DatabaseOptions> = {}) {
		const role = `${new URL(db.url).pathname.slice(1)} ${applicationName}`;
		await db.sql`create role ${db.sql(role)} login superuser password 'writer'`;
		await db.sql`alter role ${db.sql(role)} set default_transaction_read_only = on`;
		onTestFinished(() => db.sql`drop role ${db.sql(role)}`.then(() => undefined));
		const url = Object.assign(new URL(db.url), { username: encodeURIComponent(role), password: 'writer' }).href;
		const opened = await openThroughProxy(applicationName, { poolSize: 3, ...options }, url);
		return {
			...opened,
			makeWritable: () => db.sql`alter role ${db.sql(role)} reset default_transaction_read_only`,
		};
	}

	const write = (database: Database) =>
		database.admit(() =>
			database.write(
				(sql) => sql<{ outcome: 'saved'; clock: number }[]>`
					insert into written values (1) returning 'saved' as outcome, (extract(epoch from clock_timestamp()) * 1000)::float8 as clock`,
				{ deadline: startDeadline(database.deadlineMs) },
			),
		);

	test.beforeAll(async () => {
		await db.sql`create table written (n int)`;
	});

	test('has all connections replaced by the first refused write, because they may lead to a standby', async () => {
		const { database, makeWritable } = await openReadOnly('standby');
		const pids = () =>
			Promise.all(
				Array.from({ length: 3 }, () =>
					database.query((sql) => sql`select pg_backend_pid() as pid from pg_sleep(0.1)`),
				),
			);
		const before = (await pids()).map(([row]) => row?.pid);
		await makeWritable();
		await write(database);
		const after = (await pids()).map(([row]) => row?.pid);
		expect(after.filter((pid) => before.includes(pid))).toEqual([]);
		expect(await db.sql`select n from written`).toEqual([{ n: 1 }]);
	});

	test('gets no storm of connections while it stays read-only, and is written as soon as it can be', async () => {
		const { proxy, database, makeWritable } = await openReadOnly('read-only', { poolSize: 10, deadlineMs: 3000 });
		const begun = performance.now();
		const refused = await Promise.all(Array.from({ length: 30 }, () => causeOf(write(database)).catch(() => 'busy')));
		const seconds = Math.ceil((performance.now() - begun) / 1000);
		expect(refused).toContain('25006');
		expect(proxy.taken).toBeLessThanOrEqual(10 * (1 + seconds));
		await makeWritable();
		await write(database);
	});
});
