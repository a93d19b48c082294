import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { expect, onTestFinished } from 'vitest';

/** A migrated database for the current test alone. */
export async function ownDatabase(template?: string): Promise<TestDatabase> {
	const database = await createTestDatabase(template);
	onTestFinished(() => database.drop());
	return database;
}

/** Waits until this many sessions of the database wait for a lock. */
export async function lockWaiters({ sql }: Pick<TestDatabase, 'sql'>, count = 1): Promise<void> {
	const waiting = () => sql`
		select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
	await expect.poll(waiting).toHaveLength(count);
}

/**
 * Makes inserts into a table wait, while a condition holds, until they are released.
 *
 * @param condition SQL
 */
export async function holdInserts({ sql }: Pick<TestDatabase, 'sql'>, table: string, condition: string) {
	await sql.unsafe(`
		create function wait_for_test() returns trigger language plpgsql as $$ begin
			if ${condition} then perform pg_advisory_xact_lock(1); end if;
			return null;
		end $$;
		create trigger wait_for_test before insert on ${table} for each statement execute function wait_for_test()`);
	const lock = await sql.reserve();
	await lock`select pg_advisory_lock(1)`;
	const waiting = () => sql<{ pid: number }[]>`
		select pid from pg_stat_activity where datname = current_database() and wait_event = 'advisory'`;
	return {
		/** Waits until an insert waits. */
		waits: () => expect.poll(waiting, { timeout: 20_000 }).toHaveLength(1),
		/** Ends the session whose insert waits: the server would only notice when the statement is done that its client has gone. */
		async terminate(): Promise<void> {
			for (const { pid } of await waiting()) await sql`select pg_terminate_backend(${pid})`;
			await expect.poll(waiting).toEqual([]);
		},
		async release(): Promise<void> {
			await lock`select pg_advisory_unlock(1)`;
			lock.release();
			await sql.unsafe(`drop trigger wait_for_test on ${table}`);
			await sql.unsafe('drop function wait_for_test()');
		},
	};
}
