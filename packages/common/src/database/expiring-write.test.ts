import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';
import { type Database, type DatabaseOptions, openDatabase } from './database.js';
import { startDeadline } from './deadline.js';
import { errorCode } from './errors.js';
import type { Expiry } from './expiry.sql.js';

test.beforeAll(async () => {
	await db.sql`create table documents (name text primary key, version int)`;
	await db.sql`create sequence failures`;
});

/** A document that is written through a separate network. `expiries` has the expiry of every attempt, in order. */
async function openDocument(name: string, options: Partial<DatabaseOptions> = {}) {
	const proxy: TcpProxy = await startTcpProxy(db.url);
	onTestFinished(() => proxy.close());
	const url = proxy.through(options.url ?? db.url);
	const database: Database = openDatabase({
		applicationName: name,
		poolSize: 1,
		clock: () => performance.now(),
		...options,
		url,
	});
	onTestFinished(() => database.close());
	const expiries: Expiry[] = [];
	await db.sql`insert into documents values (${name}, 0)`;
	/** @returns whether it was written (true) or had expired */
	async function save(
		version: number,
		{ until, repeatsUndone = true }: { until?: number; repeatsUndone?: boolean } = {},
		check = 'true',
	): Promise<boolean> {
		const { startedAt, expiresAt } = startDeadline(database.deadlineMs);
		const rows = await database.admit(() =>
			database.write(
				(sql, expiry) => {
					expiries.push(expiry);
					return sql<{ outcome: 'saved' | null; clock: number }[]>`
				with written as (
					update documents set version = ${version}::int
					where name = ${name} and clock_timestamp() < to_timestamp(${expiry.expires}::float8 / 1000)
					  and ${sql.unsafe(check)}
					returning 1
				)
				select (select 'saved' from written) as outcome, (extract(epoch from clock_timestamp()) * 1000)::float8 as clock`;
				},
				{ deadline: { startedAt, expiresAt: until ?? expiresAt }, repeatsUndone },
			),
		);
		return rows[0]?.outcome === 'saved';
	}
	/** Prepares the statement, so that the next execution sends it in one packet. */
	expect(await save(0)).toBe(true);
	expiries.length = 0;
	return { proxy, database, expiries, save };
}

const backends = (name: string) =>
	db.sql`select from pg_stat_activity where datname = current_database() and application_name = ${name}`;
const stored = async (name: string) =>
	(await db.sql<{ version: number }[]>`select version from documents where name = ${name}`)[0]?.version;
const codeOf = (promise: Promise<unknown>) =>
	promise.then(
		() => expect.unreachable('it succeeded'),
		(error: Error) => errorCode(error.cause),
	);

describe('a write that the network delayed', () => {
	test('is not executed after a newer write once its caller has seen a failure', async () => {
		const { proxy, save } = await openDocument('given up');
		proxy.holdBack();
		expect(await codeOf(save(1, { until: performance.now() + 1000 }))).toBe('QUERY_DEADLINE');
		expect(await save(2)).toBe(true);
		await proxy.restore();
		// The old connection is gone from the server, so everything that was sent over it has been executed.
		await expect.poll(() => backends('given up')).toHaveLength(1);
		expect(await stored('given up')).toBe(2);
	});

	test('is not executed after a newer write once it was sent again', async () => {
		const { proxy, save, expiries } = await openDocument('sent again', { deadlineMs: 20_000 });
		proxy.holdBack();
		expect(await save(1)).toBe(true);
		expect(expiries).toHaveLength(2);
		expect(await save(2)).toBe(true);
		await proxy.restore();
		await expect.poll(() => backends('sent again')).toHaveLength(1);
		expect(await stored('sent again')).toBe(2);
	});
});

describe('a write is sent again', () => {
	test('only after its expiry when its connection was lost, because it may still arrive', async () => {
		const { proxy, save, expiries } = await openDocument('lost', { deadlineMs: 20_000 });
		proxy.holdBack();
		const saved = save(1);
		await expect.poll(() => expiries).toHaveLength(1);
		proxy.cut();
		await proxy.restore();
		expect(await saved).toBe(true);
		expect(expiries).toHaveLength(2);
		expect(expiries[1]?.sentAtLeast).toBeGreaterThan(expiries[0]?.expires ?? Number.POSITIVE_INFINITY);
	});

	test('at once when the server has refused it for a temporary reason', async () => {
		const { save, expiries } = await openDocument('refused');
		await db.sql.unsafe(`
			create function fail_once() returns boolean language plpgsql as $$
			begin
				if nextval('failures') = 1 then raise exception 'deadlock' using errcode = '40P01'; end if;
				return true;
			end $$`);
		expect(await save(1, {}, 'fail_once()')).toBe(true);
		expect(expiries).toHaveLength(2);
		expect(expiries[1]?.sentAtLeast).toBeLessThan(expiries[0]?.expires ?? 0);
		await db.sql`select setval('failures', 1, false)`;
		expect(await codeOf(save(2, { repeatsUndone: false }, 'fail_once()'))).toBe('40P01');
	});

	test('at once when a pooler has led it to a connection that does not know it, in a batch too', async () => {
		const { database, save, expiries } = await openDocument('unprepared');
		await db.sql.unsafe(`
			create function unprepared_once() returns boolean language plpgsql as $$
			begin
				if nextval('failures') = 1 then raise exception 'no such statement' using errcode = '26000'; end if;
				return true;
			end $$`);
		await db.sql`select setval('failures', 1, false)`;
		expect(await save(1, { repeatsUndone: false }, 'unprepared_once()')).toBe(true);
		expect(expiries).toHaveLength(2);
		await db.sql`select setval('failures', 1, false)`;
		const query = database.query((sql) => sql<{ done: boolean }[]>`select unprepared_once() as done`);
		expect((await query)[0]?.done).toBe(true);
	});

	test('never when the server has refused it for a permanent reason', async () => {
		const { save, expiries } = await openDocument('final');
		expect(await codeOf(save(1, {}, '1 / (version - version) > 0'))).toBe('22012');
		expect(expiries).toHaveLength(1);
	});

	test('when the server has ended the session as idle (57P05)', async () => {
		const url = `${db.url}?idle_session_timeout=300`;
		const { proxy, save } = await openDocument('idle', { url });
		// The network delays the server's last message, so the statement is sent into the ended session.
		proxy.holdBack();
		await expect.poll(() => backends('idle')).toHaveLength(0);
		const saved = save(1);
		await proxy.restore();
		expect(await saved).toBe(true);
		expect(await stored('idle')).toBe(1);
	});
});

test('a write that waits for a row lock until its expiry does nothing', async () => {
	const { save, expiries } = await openDocument('locked');
	const lock = await db.sql.reserve();
	await lock`begin`;
	await lock`update documents set version = 5 where name = 'locked'`;
	const saved = save(1, { until: performance.now() + 1000 });
	await expect.poll(() => expiries).toHaveLength(1);
	const over = async () => {
		const [now] = await db.sql<
			{ clock: number }[]
		>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as clock`;
		return (now?.clock ?? 0) > (expiries[0]?.expires ?? 0);
	};
	await expect.poll(over).toBe(true);
	await lock`commit`;
	lock.release();
	// Its caller sees the expiry, unless an earlier failure was reported.
	expect(await saved.catch(() => false)).toBe(false);
	expect(await stored('locked')).toBe(5);
});
