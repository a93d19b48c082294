import type { TestDatabase } from '@contacts/testing/database.js';
import { startProcess } from '@contacts/testing/process.js';
import { expect } from 'vitest';
import { environmentOf, main } from './command.js';

/**
 * Runs `contacts` as a separate process, and kills it when its second statement on a table begins, which changes nothing.
 *
 * @param change what its statements do with the table, of whose rows the first one changes the number
 */
export async function killInSecondBatch(
	{ sql }: TestDatabase,
	url: string,
	args: string[],
	{ table, change }: { table: string; change: 'insert' | 'delete' },
): Promise<void> {
	const [{ rows }] = await sql<[{ rows: number }]>`select count(*)::int as rows from ${sql(table)}`;
	await sql.unsafe(`
		create function wait_for_test() returns trigger language plpgsql as $$ begin
			if (select count(*) from ${table}) <> ${rows} then perform pg_advisory_xact_lock(1); end if;
			return null;
		end $$;
		create trigger wait_for_test before ${change} on ${table} for each statement execute function wait_for_test()`);
	const lock = await sql.reserve();
	await lock`select pg_advisory_lock(1)`;
	const command = startProcess(process.execPath, [main, ...args], { env: environmentOf(url) });
	const waiting = () => sql<{ pid: number }[]>`
		select pid from pg_stat_activity where datname = current_database() and wait_event = 'advisory'`;
	await expect.poll(waiting).toHaveLength(1);
	await command.stop('SIGKILL');
	// The server would only notice when the statement is done.
	for (const { pid } of await waiting()) await sql`select pg_terminate_backend(${pid})`;
	await expect.poll(waiting).toEqual([]);
	await lock`select pg_advisory_unlock(1)`;
	lock.release();
	await sql.unsafe('drop function wait_for_test() cascade');
}
