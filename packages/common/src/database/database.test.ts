import { database as db, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { DatabaseBusyError } from './errors.js';
import { active, causeOf, holdLock, open, openThroughProxy, respond, sleep } from './testing/open.js';

test.beforeAll(async () => {
	await db.sql`create sequence calls`;
});

describe('the deadline', () => {
	test('fails a statement in time, and the server ends it by statement_timeout', async () => {
		const database = open('deadline', { deadlineMs: 300, statementTimeoutMs: 600 });
		// Opens the connection first, which may take longer on a busy machine.
		await expect.poll(() => respond(database).catch(() => undefined)).toBeTypeOf('number');
		expect(await causeOf(sleep(database))).toBe('QUERY_DEADLINE');
		await expect.poll(() => active('deadline')).toBe(0);
		await expect.poll(() => respond(database).catch(() => undefined)).toBeTypeOf('number');
	});

	test('never fails another statement, however late the network delivers what was sent before', async () => {
		const { proxy, database } = await openThroughProxy('late', { deadlineMs: 3000, statementTimeoutMs: 60_000 });
		await respond(database);
		const release = await holdLock(2);
		const first = causeOf(database.query((sql) => sql`select pg_advisory_xact_lock_shared(2)`));
		await expect.poll(() => active('late'), { interval: 10 }).toBe(1);
		proxy.holdNew();
		expect(await first).toBe('QUERY_DEADLINE');
		await release();
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
		expect(database.connections.waiting).toBe(0);
		await proxy.restore();
		await expect.poll(() => respond(database).catch(() => undefined)).toBeTypeOf('number');
		expect(await db.sql`select is_called from calls`).toEqual([{ is_called: false }]);
	});

	test('reports a database that responds to others as busy, not as failed', async () => {
		const database = open('busy', { deadlineMs: 4000 });
		const first = Array.from({ length: 4 }, () => sleep(database, 0.2));
		const last = Array.from({ length: 30 }, () => sleep(database, 0.2));
		await Promise.all(first);
		expect(await Promise.allSettled(last)).toContainEqual({
			status: 'rejected',
			reason: expect.any(DatabaseBusyError),
		});
		expect(await respond(database)).toBeTypeOf('number');
	});
});

test('a new caller is refused only while more than fifty wait for a connection and the first of them has waited for half a second', async () => {
	let now = 0;
	const database = open('full', { deadlineMs: 60_000, statementTimeoutMs: 60_000, clock: () => now });
	const release = await holdLock(5);
	const wait = () => database.query((sql) => sql`select pg_advisory_xact_lock_shared(5)`);
	// One is executed, and waits for no connection.
	const callers = Array.from({ length: 51 }, wait);
	expect(database.connections.waiting).toBe(50);
	now += 60_000;
	expect(database.isFull).toBe(false);
	callers.push(wait());
	expect(database.isFull).toBe(true);
	await expect(wait()).rejects.toBeInstanceOf(DatabaseBusyError);
	await release();
	await Promise.all(callers);

	const releaseAgain = await holdLock(5);
	const others = Array.from({ length: 100 }, wait);
	now += 499;
	expect(database.isFull).toBe(false);
	now += 1;
	expect(database.isFull).toBe(true);
	await releaseAgain();
	await Promise.all(others);
	expect(database.isFull).toBe(false);
});

test('close waits for running statements', async () => {
	const database = open('closing');
	const release = await holdLock(3);
	const result = database.query((sql) => sql`select 1 as one from pg_advisory_xact_lock_shared(3)`);
	await expect.poll(() => active('closing'), { interval: 10 }).toBe(1);
	const closed = database.close();
	await release();
	await closed;
	expect(await result).toEqual([{ one: 1 }]);
});
