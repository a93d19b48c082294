import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';
import { type Database, type DatabaseOptions, openDatabase } from './database.js';
import { DatabaseBusyError, DatabaseError, errorCode } from './errors.js';

test.beforeAll(async () => {
	await db.sql`create sequence calls`;
});

/** A database for this test alone, known by its application name. */
function open(applicationName: string, options: Partial<DatabaseOptions> = {}): Database {
	const database = openDatabase({ url: db.url, applicationName, poolSize: 1, ...options });
	onTestFinished(() => database.close());
	return database;
}
async function openThroughProxy(
	applicationName: string,
	options: Partial<DatabaseOptions> = {},
): Promise<{ proxy: TcpProxy; database: Database }> {
	const proxy = await startTcpProxy(db.url);
	onTestFinished(() => proxy.close());
	return { proxy, database: open(applicationName, { url: proxy.through(db.url), ...options }) };
}

const respond = async (database: Database) => {
	const rows = await database.query((sql) => sql<{ pid: number }[]>`select pg_backend_pid() as pid`);
	return rows[0]?.pid;
};
const sleep = (database: Database, seconds = 10) => database.query((sql) => sql`select pg_sleep(${seconds}::float8)`);
const causeOf = (promise: Promise<unknown>) =>
	promise.then(
		() => expect.unreachable('it succeeded'),
		(error: unknown) => {
			expect(error).toBeInstanceOf(DatabaseError);
			return errorCode((error as Error).cause);
		},
	);
const active = async (applicationName: string) =>
	(await db.sql`select from pg_stat_activity where application_name = ${applicationName} and state = 'active'`).length;
const kill = async (applicationName: string) => {
	const rows = await db.sql`
		select pg_terminate_backend(pid) from pg_stat_activity where application_name = ${applicationName}`;
	return rows.length;
};

/**
 * A timer that is set now, to compare with something that happens. Timers fire in the order of their times, however late a
 * busy machine runs them. @returns whether it has fired
 */
function timer(milliseconds: number): () => boolean {
	let fired = false;
	const running = setTimeout(() => {
		fired = true;
	}, milliseconds);
	onTestFinished(() => clearTimeout(running));
	return () => fired;
}

describe('the deadline', () => {
	test('fails a statement in time, and the server ends it by statement_timeout', async () => {
		const database = open('deadline', { deadlineMs: 300, statementTimeoutMs: 600 });
		// Opens the connection first, which may take longer on a busy machine.
		await expect.poll(() => respond(database).catch(() => undefined), { timeout: 5000 }).toBeTypeOf('number');
		const isLate = timer(1000);
		expect(await causeOf(sleep(database))).toBe('QUERY_DEADLINE');
		expect(isLate()).toBe(false);
		await expect.poll(() => active('deadline')).toBe(0);
		expect(await respond(database)).toBeTypeOf('number');
	});

	test('never fails another statement, however late the network delivers what was sent before', async () => {
		const { proxy, database } = await openThroughProxy('late', { deadlineMs: 1000 });
		await respond(database);
		const lock = await db.sql.reserve();
		await lock`select pg_advisory_lock(2)`;
		const first = causeOf(database.query((sql) => sql`select pg_advisory_xact_lock_shared(2)`));
		await expect.poll(() => active('late'), { interval: 10 }).toBe(1);
		proxy.holdNew();
		expect(await first).toBe('QUERY_DEADLINE');
		await lock`select pg_advisory_unlock(2)`;
		lock.release();
		await expect.poll(() => active('late'), { interval: 10 }).toBe(0);
		const second = database.query((sql) => sql`select 2 as two from pg_sleep(0.5)`);
		await proxy.restore();
		expect(await second).toEqual([{ two: 2 }]);
	});

	test('applies to statements that wait for a connection, and they are never sent', async () => {
		const { proxy, database } = await openThroughProxy('queue', { deadlineMs: 300, statementTimeoutMs: 60_000 });
		await expect.poll(() => respond(database).catch(() => undefined)).toBeTypeOf('number');
		// The connection of the first one is replaced, and those that wait a little longer must not get the new one in time.
		proxy.holdNew();
		const first = causeOf(sleep(database));
		const others = Array.from({ length: 20 }, () => causeOf(database.query((sql) => sql`select nextval('calls')`)));
		expect(new Set(await Promise.all([first, ...others]))).toEqual(new Set(['QUERY_DEADLINE']));
		expect(database.waiting).toBe(0);
		await proxy.restore();
		await expect.poll(() => respond(database).catch(() => undefined)).toBeTypeOf('number');
		expect(await db.sql`select is_called from calls`).toEqual([{ is_called: false }]);
	});

	test('reports a database that responds to others as busy, not as failed', async () => {
		const database = open('busy', { deadlineMs: 2000 });
		const first = Array.from({ length: 4 }, () => sleep(database, 0.1));
		const last = Array.from({ length: 30 }, () => sleep(database, 0.1));
		await Promise.all(first);
		expect(await Promise.allSettled(last)).toContainEqual({
			status: 'rejected',
			reason: expect.any(DatabaseBusyError),
		});
		expect(await respond(database)).toBeTypeOf('number');
	});

	test('is not the only limit: the server ends a long statement by itself', async () => {
		expect(await causeOf(sleep(open('server', { statementTimeoutMs: 100 })))).toBe('57014');
	});

	test('keeps a connection that is being opened when it passes', async () => {
		const { proxy, database } = await openThroughProxy('slow', { deadlineMs: 300 });
		proxy.stall();
		expect(await causeOf(respond(database))).toBe('QUERY_DEADLINE');
		await proxy.restore();
		await expect.poll(() => respond(database)).toBeTypeOf('number');
	});
});

describe('too many callers', () => {
	test('a caller beyond the limit fails at once, and later callers are admitted again', async () => {
		const database = open('busy', { maxWaiting: 2 });
		const lock = await db.sql.reserve();
		await lock`select pg_advisory_lock(1)`;
		const waiting = [1, 2].map(() => database.query((sql) => sql`select pg_advisory_xact_lock_shared(1)`));
		await expect(respond(database)).rejects.toBeInstanceOf(DatabaseBusyError);
		expect(database.waiting).toBe(2);
		await lock`select pg_advisory_unlock(1)`;
		lock.release();
		await Promise.all(waiting);
		expect(database.waiting).toBe(0);
		expect(await respond(database)).toBeTypeOf('number');
	});
});

describe('killed backends', () => {
	test('a statement whose backend was killed is sent again, and its caller sees no error', async () => {
		const database = open('killed');
		const result = database.query((sql) => sql`select 1 as one from pg_sleep(0.3)`);
		await expect.poll(() => active('killed'), { interval: 10 }).toBe(1);
		expect(await kill('killed')).toBe(1);
		expect(await result).toEqual([{ one: 1 }]);
	});

	test('rows that arrived before the backend was killed are not in the result', async () => {
		const database = open('half');
		const result = database.query(
			(sql) => sql`
				select row, repeat('x', 1000) as text, case when row = 100 then pg_sleep(0.5) end as pause
				from generate_series(1, 100) as row`,
		);
		await expect.poll(() => active('half'), { interval: 10 }).toBe(1);
		await kill('half');
		const rows = await result;
		expect(rows.map(({ row }) => row)).toEqual(Array.from({ length: 100 }, (_, index) => index + 1));
	});

	test('a statement that the server refuses is not sent again', async () => {
		const database = open('once');
		expect(await causeOf(database.query((sql) => sql`select 1 / (nextval('calls') - 1)`))).toBe('22012');
		expect(await db.sql`select last_value::int, is_called from calls`).toEqual([{ last_value: 1, is_called: true }]);
	});

	test('with 50 callers, none hangs or gets the result of another, and the database works afterwards', async () => {
		// Only a statement that never gets a response reaches this deadline.
		const database = open('storm', { poolSize: 5, deadlineMs: 15_000 });
		const causes = new Set<string | undefined>();
		let storm = true;
		let right = 0;
		const callers = Array.from({ length: 50 }, async (_, caller) => {
			while (storm) {
				const rows = await database
					.query((sql) => sql<{ caller: number }[]>`select ${caller}::int as caller`)
					.catch((error: Error) => {
						expect(error).toBeInstanceOf(DatabaseError);
						causes.add(errorCode(error.cause));
					});
				if (rows === undefined) continue;
				expect(rows).toEqual([{ caller }]);
				right++;
			}
		});
		for (let round = 0; round < 40; round++) {
			const before = right;
			await kill('storm');
			await expect.poll(() => right - before, { interval: 5, timeout: 15_000 }).toBeGreaterThan(50);
		}
		storm = false;
		await Promise.all(callers);
		expect([...causes]).not.toContain('QUERY_DEADLINE');
		await Promise.all(Array.from({ length: 50 }, () => respond(database)));
	});
});

describe('a network that fails', () => {
	test('unresponsive connections fail their callers in time and are replaced', async () => {
		const { proxy, database } = await openThroughProxy('silent', { poolSize: 2, deadlineMs: 500 });
		await Promise.all([respond(database), respond(database)]);
		proxy.blackhole();
		const isLate = timer(1500);
		const causes = await Promise.all(Array.from({ length: 20 }, () => causeOf(respond(database))));
		expect(isLate()).toBe(false);
		expect(new Set(causes)).toEqual(new Set(['QUERY_DEADLINE']));

		await proxy.restore();
		await expect
			.poll(() => respond(database).catch(() => undefined), { interval: 10, timeout: 3000 })
			.toBeTypeOf('number');
	});

	test('a database that returns is used again within a second, however long it was away', async () => {
		const { proxy, database } = await openThroughProxy('away');
		await respond(database);
		proxy.cut();
		for (let tries = 0; tries < 8; tries++) expect(await causeOf(respond(database))).toBe('ECONNREFUSED');
		await proxy.restore();
		await expect.poll(() => respond(database).catch(() => undefined), { interval: 10 }).toBeTypeOf('number');
	});

	test('a load balancer without a server causes no reconnect storm and no leaked connection', async () => {
		const { proxy, database } = await openThroughProxy('balancer', { poolSize: 2, deadlineMs: 500 });
		await respond(database);
		proxy.hangUp();
		const before = proxy.taken;
		for (let tries = 0; tries < 3; tries++) await Promise.all([causeOf(respond(database)), causeOf(respond(database))]);
		expect(proxy.taken - before).toBeLessThan(50);
		await proxy.restore();
		await expect
			.poll(() => Promise.all([respond(database), respond(database)]).catch(() => undefined), { interval: 10 })
			.toHaveLength(2);
	});

	test('an error of the server after a lost connection is reported at once and unchanged', async () => {
		const role = new URL(db.url).pathname.slice(1);
		await db.sql.unsafe(`create role ${role} login password 'refused'`);
		onTestFinished(() => db.sql.unsafe(`drop role ${role}`).then(() => undefined));
		const url = Object.assign(new URL(db.url), { username: role, password: 'refused' }).href;
		const database = open('refused', { url });
		const result = causeOf(sleep(database));
		await expect.poll(() => active('refused'), { interval: 10 }).toBe(1);
		await db.sql.unsafe(`alter role ${role} nologin`);
		// The deadline is four seconds. At once is some milliseconds.
		const isLate = timer(3000);
		await kill('refused');
		expect(await result).toBe('28000');
		expect(isLate()).toBe(false);
	});
});

test('close waits for running statements', async () => {
	const database = openDatabase({ url: db.url, applicationName: 'closing', poolSize: 1 });
	const result = database.query((sql) => sql`select 1 as one from pg_sleep(0.3)`);
	await expect.poll(() => active('closing'), { interval: 10 }).toBe(1);
	await database.close();
	expect(await result).toEqual([{ one: 1 }]);
});

test('close does not wait for a lost connection', async () => {
	const database = openDatabase({ url: db.url, applicationName: 'lost', poolSize: 2 });
	const result = database.query((sql) => sql`select 1 as one from pg_sleep(0.3)`);
	await respond(database);
	await expect.poll(() => active('lost'), { interval: 10 }).toBe(1);
	await db.sql`
		select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'lost' and state = 'active'`;
	expect(await result).toEqual([{ one: 1 }]);
	// It waits up to five seconds for a connection that is in use. Here it takes some milliseconds.
	const isLate = timer(4000);
	await database.close();
	expect(isLate()).toBe(false);
});
