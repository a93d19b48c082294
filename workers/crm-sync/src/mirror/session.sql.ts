import type { Sql } from '@contacts/common/database/client.js';

/** An arbitrary number that nothing else in the same database uses for an advisory lock. */
const synchroniserLock = 7_140_233_981;

export async function takeLock(sql: Sql): Promise<{ locked: boolean; read_only: boolean }> {
	const [row] = await sql<[{ locked: boolean; read_only: boolean }]>`
		select pg_try_advisory_lock(${synchroniserLock}::bigint) as locked,
		       current_setting('transaction_read_only')::boolean as read_only`;
	return row;
}

/** A session that holds the lock: that of a synchroniser, or of a command that must not run beside one. */
export interface LockHolder {
	pid: number;
	role: string;
	application: string;
}

export async function findLockHolder(sql: Sql): Promise<LockHolder | undefined> {
	// PostgreSQL lists a lock by one bigint as its two halves.
	const [row] = await sql<LockHolder[]>`
		select a.pid, a.usename as role, a.application_name as application
		from pg_locks l join pg_stat_activity a using (pid)
		where l.locktype = 'advisory' and l.granted
		  and l.database = (select oid from pg_database where datname = current_database())
		  and (l.classid::bigint << 32 | l.objid::bigint) = ${synchroniserLock}::bigint and l.objsubid = 1`;
	return row;
}

export function describeHolder(holder: LockHolder | undefined): string {
	if (holder === undefined) return 'a session that has just ended';
	return `the role ${holder.role} (${holder.application || 'no application name'}, server process ${holder.pid})`;
}
