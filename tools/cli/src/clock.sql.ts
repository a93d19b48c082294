import type { Sql } from '@contacts/common/database/client.js';

/**
 * This moment by the database's clock, exactly, in the form of RFC 3339: every check of a key or a subscription goes by it, whatever
 * the clock of the command's machine says.
 */
export async function readClock(sql: Sql): Promise<string> {
	const [{ now }] = await sql<[{ now: string }]>`
		select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as now`;
	return now;
}
