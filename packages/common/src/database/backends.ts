import { type ClientOptions, createClient, type Sql } from './client.js';

/** The server's process that this statement was sent to; undefined while it waits for a connection. Not in the published types. */
export function backendOf(query: object): number | undefined {
	return (query as { state?: { pid: number | null } }).state?.pid ?? undefined;
}

/** Ends processes of our own role and waits until they are gone: what they were sent and have not begun is never executed. */
export async function endBackends(sql: Sql, pids: readonly number[]): Promise<void> {
	await sql`
		select pg_terminate_backend(pid, 500) from pg_stat_activity
		where pid = any(${`{${pids.join()}}`}::text::int[]) and usename = current_user and pid <> pg_backend_pid()`;
}

/**
 * Whether one of these processes, of which an answer has long been awaited, is not at work at all: then its connection has
 * gone silent. The question goes over a connection of its own.
 *
 * @returns false also when nobody answers within a second
 */
export async function awaitedInVain(options: ClientOptions, pids: readonly number[]): Promise<boolean> {
	const sql = createClient({ ...options, poolSize: 1 });
	let timer: NodeJS.Timeout | undefined;
	try {
		const answer = sql<{ silent: boolean }[]>`
			select exists (
				select from unnest(${`{${pids.join()}}`}::text::int[]) as awaited (pid)
				left join pg_stat_activity as activity using (pid)
				where activity.pid is null
				   or (activity.state = 'idle' and activity.state_change < clock_timestamp() - interval '0.5 seconds')
			) as silent`;
		const late = new Promise<[]>((resolve) => {
			timer = setTimeout(resolve, 1000, []);
		});
		const [row] = await Promise.race([answer, late]);
		return row?.silent ?? false;
	} catch {
		return false;
	} finally {
		clearTimeout(timer);
		void sql.end({ timeout: 0 }).catch(() => undefined);
	}
}
