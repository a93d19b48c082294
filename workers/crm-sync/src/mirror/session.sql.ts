import { findHolder, type LockHolder } from '@contacts/common/database/advisory-lock.sql.js';
import type { Sql } from '@contacts/common/database/client.js';

/** An arbitrary number that nothing else in the same database uses for an advisory lock. */
const synchroniserLock = 7_140_233_981;

export async function takeLock(sql: Sql): Promise<{ locked: boolean; read_only: boolean }> {
	const [row] = await sql<[{ locked: boolean; read_only: boolean }]>`
		select pg_try_advisory_lock(${synchroniserLock}::bigint) as locked,
		       current_setting('transaction_read_only')::boolean as read_only`;
	return row;
}

/** The session of a synchroniser, or of a command that must not run beside one. */
export const findLockHolder = (sql: Sql): Promise<LockHolder | undefined> => findHolder(sql, synchroniserLock);
