import type { Sql } from '@contacts/common/database/client.js';
import { isoTime } from '@contacts/common/database/iso-time.sql.js';

/**
 * This moment by the database's clock, exactly, in the form of RFC 3339: every check of a key or a subscription goes by it, whatever
 * the clock of the command's machine says.
 */
export async function readClock(sql: Sql): Promise<string> {
	const [{ now }] = await sql<[{ now: string }]>`
		select ${isoTime(sql, 'clock_timestamp()', '.US')} as now`;
	return now;
}
