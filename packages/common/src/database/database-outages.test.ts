import { database as db, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { DatabaseError, errorCode } from './errors.js';
import { active, causeOf, holdLock, kill, open, openThroughProxy, respond } from './testing/open.js';

test.beforeAll(async () => {
	await db.sql`create sequence calls`;
});

describe('killed backends', () => {
	test('a statement whose backend was killed is sent again, and rows that arrived before are not in its result', async () => {
		const database = open('half');
		const release = await holdLock(4);
		const result = database.query(
			(sql) => sql`
				select row, repeat('x', 1000) as text,
				       case when row = 100 then pg_advisory_xact_lock_shared(4) end as pause
				from generate_series(1, 100) as row`,
		);
		await expect.poll(() => active('half'), { interval: 10 }).toBeGreaterThan(0);
		await kill('half');
		await release();
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
			await expect.poll(() => right - before, { interval: 5 }).toBeGreaterThan(50);
		}
		storm = false;
		await Promise.all(callers);
		expect([...causes]).not.toContain('QUERY_DEADLINE');
		await Promise.all(Array.from({ length: 50 }, () => respond(database)));
	});
});

describe('a network that fails', () => {
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
		await expect.poll(() => respond(database).catch(() => undefined)).toBeTypeOf('number');
		proxy.hangUp();
		const before = proxy.taken;
		for (let tries = 0; tries < 3; tries++) await Promise.all([causeOf(respond(database)), causeOf(respond(database))]);
		expect(proxy.taken - before).toBeLessThan(50);
		await proxy.restore();
		await expect
			.poll(() => Promise.all([respond(database), respond(database)]).catch(() => undefined), { interval: 10 })
			.toHaveLength(2);
	});
});
