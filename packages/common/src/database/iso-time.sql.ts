import type { Sql } from './client.js';

/** An expression for a time as RFC 3339 in UTC, to the second unless more digits are asked for: milliseconds or microseconds. */
export const isoTime = (sql: Sql, time: string, digits: '' | '.MS' | '.US' = '') =>
	sql.unsafe(`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS${digits}"Z"')`);
