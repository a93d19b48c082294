import type { Sql } from '@contacts/common/database/client.js';

/** An arbitrary number that nothing else in the same database uses for an advisory lock. */
const synchroniserLock = 7_140_233_981;

/** The server process of a connection. Process IDs are reused, so its start time identifies it too. */
export interface Backend {
	pid: number;
	started: string;
}

export async function takeLock(sql: Sql): Promise<Backend & { locked: boolean; read_only: boolean }> {
	const [row] = await sql<[Backend & { locked: boolean; read_only: boolean }]>`
		select pg_try_advisory_lock(${synchroniserLock}::bigint) as locked,
		       current_setting('transaction_read_only')::boolean as read_only,
		       pid, extract(epoch from backend_start)::text as started
		from pg_stat_activity where pid = pg_backend_pid()`;
	return row;
}

/** Ends an idle backend. @returns whether the backend still exists: it executes a statement, or the server could not end it */
export async function endIdleBackend(sql: Sql, { pid, started }: Backend): Promise<boolean> {
	const [row] = await sql<[{ busy: boolean }]>`
		with session as (
			select pid, state = 'idle' and state_change < clock_timestamp() - interval '2 seconds' as idle
			from pg_stat_activity
			where pid = ${pid}::int and extract(epoch from backend_start)::text = ${started}::text
		)
		select coalesce((
			select not (idle and pg_terminate_backend(pid)) from session
		), false) as busy`;
	return row.busy;
}

/** Whether the lock is held, by a synchroniser or by a command that must not run beside one. */
export async function isLocked(sql: Sql): Promise<boolean> {
	// PostgreSQL lists a lock by one bigint as its two halves.
	const [row] = await sql<[{ held: boolean }]>`
		select exists (
			select from pg_locks
			where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())
			  and (classid::bigint << 32 | objid::bigint) = ${synchroniserLock}::bigint and objsubid = 1
		) as held`;
	return row.held;
}
