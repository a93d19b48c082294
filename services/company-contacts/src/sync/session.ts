import type { Sql } from '@contacts/common/database/client.js';
import { connect } from '@contacts/common/database/connect.js';
import { judge } from '@contacts/common/database/errors.js';
import { timedOut, withDeadline } from '@contacts/common/process/with-deadline.js';

/** Any number will do, as long as nothing else in the same database takes it. */
const synchroniserLock = 7_140_233_981;

/** Milliseconds after which it is asked whether a statement is still executed, and again between two questions. */
const watchIntervalMs = 1000;

/** Milliseconds within which the lock must be there, and within which each of these questions must be answered. */
const responseTimeoutMs = 5000;

/** The one connection of the synchroniser that works. It holds the lock, so whatever it writes, nobody else writes. */
export interface Session {
	/**
	 * @throws SessionLost once the connection is gone, and with it the lock; also when the server can't be written (any more),
	 *   or does not execute what it was sent
	 */
	run<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
	close(): Promise<void>;
}

/** The connection was lost, and perhaps another synchroniser works now: open another session. */
export class SessionLost extends Error {
	override name = 'SessionLost';
}

interface Backend {
	pid: number;
	started: string;
}

/**
 * @returns undefined where another synchroniser works on this database
 * @throws SessionLost where the server can't be written: its lock keeps nobody from writing elsewhere
 */
export async function openSession(url: string): Promise<Session | undefined> {
	let open = false;
	let lost: SessionLost | undefined;
	const lose = (reason: string, cause?: unknown) => {
		lost ??= new SessionLost(reason, { cause });
		return lost;
	};
	const sql = connect(url, {
		max: 1,
		fetch_types: false,
		connect_timeout: 5,
		idle_timeout: 0,
		max_lifetime: null,
		keep_alive: 15,
		onnotice: () => undefined,
		// The client would reconnect by itself and go on without the lock.
		onclose: () => {
			if (open) lose('the connection to the database was lost');
		},
		connection: { application_name: 'company-contacts-sync', statement_timeout: 300_000 },
	});
	try {
		const row = await withDeadline(lockAndDescribe(sql), responseTimeoutMs);
		if (row === timedOut) throw lose('the database does not respond');
		if (row.read_only) throw lose('the database is read-only');
		open = true;
		if (!row.locked) {
			await close();
			return undefined;
		}
		return { run: (work) => run(work, row), close };
	} catch (error) {
		await sql.end({ timeout: 0 });
		throw error;
	}

	async function run<T>(work: (client: Sql) => Promise<T>, backend: Backend): Promise<T> {
		if (lost) throw lost;
		const watched = watch(backend);
		try {
			return await Promise.race([work(sql), watched.lost]);
		} catch (error) {
			const { readOnly, lost: cutOff } = judge(error);
			if (readOnly) throw lose('the database is read-only', error);
			if (cutOff) throw lose('the connection to the database was lost', error);
			throw lost ?? error;
		} finally {
			watched.stop();
		}
	}

	/** Rejects when the server does not execute what it was sent: the connection does not pass it on, and never says so. */
	function watch(backend: Backend): { lost: Promise<never>; stop(): void } {
		let stopped = false;
		let timer: NodeJS.Timeout | undefined;
		const unresponsive = new Promise<never>((_, reject) => {
			const look = async () => {
				const idle = await isIdle(url, backend);
				if (stopped) return;
				if (idle) return reject(lose('the connection to the database does not respond'));
				timer = setTimeout(look, watchIntervalMs);
			};
			timer = setTimeout(look, watchIntervalMs);
		});
		return {
			lost: unresponsive,
			stop() {
				stopped = true;
				clearTimeout(timer);
			},
		};
	}

	async function close(): Promise<void> {
		await sql.end({ timeout: lost ? 0 : 5 });
	}
}

async function lockAndDescribe(sql: Sql): Promise<Backend & { locked: boolean; read_only: boolean }> {
	const [row] = await sql<[Backend & { locked: boolean; read_only: boolean }]>`
		select pg_try_advisory_lock(${synchroniserLock}::bigint) as locked,
		       current_setting('transaction_read_only')::boolean as read_only,
		       pid, extract(epoch from backend_start)::text as started
		from pg_stat_activity where pid = pg_backend_pid()`;
	return row;
}

/**
 * Whether the backend of a session that awaits a response executes nothing, or is gone: asked over a connection of its own,
 * which may lead to another server by now. An idle backend is ended, so that the lock is free, and what it was sent and has
 * not received is never executed.
 *
 * @returns false also when nobody responds in time
 */
async function isIdle(url: string, { pid, started }: Backend): Promise<boolean> {
	const sql = connect(url, {
		max: 1,
		fetch_types: false,
		connect_timeout: 5,
		onnotice: () => undefined,
		connection: { application_name: 'company-contacts-sync' },
	});
	try {
		const rows = await withDeadline(
			sql<[{ busy: boolean }]>`
				with session as (
					select pid, state = 'idle' and state_change < clock_timestamp() - interval '2 seconds' as idle
					from pg_stat_activity
					where pid = ${pid}::int and extract(epoch from backend_start)::text = ${started}::text
				)
				select coalesce((
					select case when idle then pg_terminate_backend(pid) is null else true end from session
				), false) as busy`,
			responseTimeoutMs,
		);
		return rows !== timedOut && !rows[0].busy;
	} catch {
		return false;
	} finally {
		void sql.end({ timeout: 0 }).catch(() => undefined);
	}
}

/** Whether somebody holds the lock: a synchroniser, or a command that must not have one beside it. */
export async function isLocked(sql: Sql): Promise<boolean> {
	// A lock by one bigint is listed as its two halves.
	const [row] = await sql<[{ held: boolean }]>`
		select exists (
			select from pg_locks
			where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())
			  and (classid::bigint << 32 | objid::bigint) = ${synchroniserLock}::bigint and objsubid = 1
		) as held`;
	return row.held;
}
