import { Socket } from 'node:net';
import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { type Database, type DatabaseOptions, openDatabase } from './database.js';
import { errorCode } from './errors.js';
import type { Expiry } from './expiring-write.js';

test.beforeAll(async () => {
	await db.sql`create table documents (name text primary key, version int)`;
	await db.sql`create sequence failures`;
});

/** A document that is written through its own network. `expiries` are those of every sending, in their order. */
async function openDocument(name: string, options: Partial<DatabaseOptions> = {}) {
	const proxy: TcpProxy = await startTcpProxy(db.url);
	onTestFinished(() => proxy.close());
	const url = proxy.through(options.url ?? db.url);
	const database: Database = openDatabase({ applicationName: name, poolSize: 1, ...options, url });
	onTestFinished(() => database.close());
	const expiries: Expiry[] = [];
	await db.sql`insert into documents values (${name}, 0)`;
	/** @returns whether it was written, or had expired */
	async function save(
		version: number,
		{ until, retryRefused = true }: { until?: number; retryRefused?: boolean } = {},
		check = 'true',
	): Promise<boolean> {
		const rows = await database.admit((turn) =>
			database.write(
				(sql, expiry) => {
					expiries.push(expiry);
					return sql<{ saved: boolean; clock: number }[]>`
				with written as (
					update documents set version = ${version}::int
					where name = ${name} and clock_timestamp() < to_timestamp(${expiry.expires}::float8 / 1000)
					  and ${sql.unsafe(check)}
					returning 1
				)
				select exists (select from written) as saved, (extract(epoch from clock_timestamp()) * 1000)::float8 as clock`;
				},
				{ turn: { ...turn, until: until ?? turn.until }, retryRefused },
			),
		);
		return rows[0]?.saved ?? false;
	}
	/** So that the next time the statement is sent as a whole at once. */
	expect(await save(0)).toBe(true);
	expiries.length = 0;
	return { proxy, database, expiries, save };
}

const backends = (name: string) => db.sql`select from pg_stat_activity where application_name = ${name}`;
const stored = async (name: string) =>
	(await db.sql<{ version: number }[]>`select version from documents where name = ${name}`)[0]?.version;
const codeOf = (promise: Promise<unknown>) =>
	promise.then(
		() => expect.unreachable('it succeeded'),
		(error: Error) => errorCode(error.cause),
	);

describe('a statement that was held up in the network', () => {
	test('is not executed after a newer one, when its caller was told of a failure', async () => {
		const { proxy, save } = await openDocument('given up', { deadline: 1000 });
		proxy.holdBack();
		expect(await codeOf(save(1))).toBe('QUERY_DEADLINE');
		expect(await save(2)).toBe(true);
		await proxy.restore();
		// The old connection is gone from the server: whatever was sent over it has been executed.
		await expect.poll(() => backends('given up'), { timeout: 3000 }).toHaveLength(1);
		expect(await stored('given up')).toBe(2);
	});

	test('is not executed after a newer one, when it was sent again', async () => {
		const { proxy, save, expiries } = await openDocument('sent again');
		proxy.holdBack();
		expect(await save(1)).toBe(true);
		expect(expiries).toHaveLength(2);
		expect(await save(2)).toBe(true);
		await proxy.restore();
		await expect.poll(() => backends('sent again'), { timeout: 3000 }).toHaveLength(1);
		expect(await stored('sent again')).toBe(2);
	});
});

describe('a statement is sent again', () => {
	test('only after its expiry when its connection was lost, as it may still be on its way', async () => {
		const { proxy, save, expiries } = await openDocument('lost');
		proxy.holdBack();
		const saved = save(1);
		await expect.poll(() => expiries).toHaveLength(1);
		proxy.cut();
		await proxy.restore();
		expect(await saved).toBe(true);
		expect(expiries).toHaveLength(2);
		expect(expiries[1]?.sent).toBeGreaterThan(expiries[0]?.expires ?? Number.POSITIVE_INFINITY);
	});

	test('at once when the server has refused it for a reason that may pass', async () => {
		const { save, expiries } = await openDocument('refused');
		await db.sql.unsafe(`
			create function fail_once() returns boolean language plpgsql as $$
			begin
				if nextval('failures') = 1 then raise exception 'deadlock' using errcode = '40P01'; end if;
				return true;
			end $$`);
		expect(await save(1, {}, 'fail_once()')).toBe(true);
		expect(expiries).toHaveLength(2);
		expect(expiries[1]?.sent).toBeLessThan(expiries[0]?.expires ?? 0);
		await db.sql`select setval('failures', 1, false)`;
		expect(await codeOf(save(2, { retryRefused: false }, 'fail_once()'))).toBe('40P01');
	});

	test('never when the server has refused it for good', async () => {
		const { save, expiries } = await openDocument('final');
		expect(await codeOf(save(1, {}, '1 / (version - version) > 0'))).toBe('22012');
		expect(expiries).toHaveLength(1);
	});

	test('when it finds the session ended for being idle (57P05)', async () => {
		const url = `${db.url}?idle_session_timeout=300`;
		const { proxy, save } = await openDocument('idle', { url });
		// What the server says at the end of the session is held up, so the statement is sent into it.
		proxy.holdBack();
		await expect.poll(() => backends('idle')).toHaveLength(0);
		const saved = save(1);
		await proxy.restore();
		expect(await saved).toBe(true);
		expect(await stored('idle')).toBe(1);
	});

	test('when the kernel gives its connection up (ETIMEDOUT), a query too', async () => {
		const { connect } = Socket.prototype;
		const sockets: Socket[] = [];
		const spy = vi.spyOn(Socket.prototype, 'connect').mockImplementation(function (this: Socket, ...target) {
			sockets.push(this);
			return Reflect.apply(connect, this, target);
		});
		onTestFinished(() => spy.mockRestore());
		const { proxy, database, save, expiries } = await openDocument('timed out');
		const port = Number(new URL(proxy.through(db.url)).port);
		const timeOut = async () => {
			// The proxy has sockets of its own in this process.
			const ended = sockets.findLast(({ remotePort }) => remotePort === port);
			await proxy.restore();
			ended?.destroy(Object.assign(new Error('read ETIMEDOUT'), { code: 'ETIMEDOUT' }));
		};
		let sent = 0;
		proxy.holdBack();
		const answer = database.query((sql) => {
			sent++;
			return sql`select 1 as one`;
		});
		await expect.poll(() => sent).toBe(1);
		await timeOut();
		expect(await answer).toEqual([{ one: 1 }]);
		expect(sent).toBe(2);

		// Over the new connection.
		expect(await save(0)).toBe(true);
		expiries.length = 0;
		proxy.holdBack();
		const saved = save(1);
		await expect.poll(() => expiries).toHaveLength(1);
		await timeOut();
		expect(await saved).toBe(true);
	});
});

test('a statement that waits for a row until its expiry does nothing', async () => {
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
	// It says so, where its caller has not been told of a failure before.
	expect(await saved.catch(() => false)).toBe(false);
	expect(await stored('locked')).toBe(5);
});
