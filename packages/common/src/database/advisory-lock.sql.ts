import type { Sql } from './client.js';

/** A session that holds an advisory lock. */
export interface LockHolder {
	pid: number;
	role: string;
	application: string;
}

/** @param lock the one number by which the lock was taken */
export async function findHolder(sql: Sql, lock: number): Promise<LockHolder | undefined> {
	// PostgreSQL lists it as its two halves.
	const [row] = await sql<LockHolder[]>`
		select a.pid, a.usename as role, a.application_name as application
		from pg_locks l join pg_stat_activity a using (pid)
		where l.locktype = 'advisory' and l.granted
		  and l.database = (select oid from pg_database where datname = current_database())
		  and (l.classid::bigint << 32 | l.objid::bigint) = ${lock}::bigint and l.objsubid = 1`;
	return row;
}

export function describeHolder(holder: LockHolder | undefined): string {
	if (holder === undefined) return 'a session that has just ended';
	return `"${holder.application}" (user ${holder.role}, process ${holder.pid})`;
}
