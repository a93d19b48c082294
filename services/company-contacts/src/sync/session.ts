import type { Sql } from '@contacts/common/database/client.js';
import { connectSingle } from '@contacts/common/database/connect.js';
import { judge } from '@contacts/common/database/errors.js';
import { timedOut, withDeadline } from '@contacts/common/database/with-deadline.js';
import { type Backend, endIdleBackend, findLockHolder, type LockHolder, takeLock } from './session.sql.js';

/** How often to check that the server still executes a statement. */
const watchIntervalMs = 1000;

/** The timeout for the lock and for each of these checks. */
const responseTimeoutMs = 5000;

/** The connection of the working synchroniser. It holds the lock, so nobody else writes what it writes. */
export interface Session {
	/**
	 * @throws SessionLostError once the connection is lost, and with it the lock; also if the server is (or becomes) read-only or
	 *   does not execute a statement
	 */
	run<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
	close(): Promise<void>;
}

/** The connection was lost, and another synchroniser may work now: open another session. */
export class SessionLostError extends Error {
	override name = 'SessionLostError';
}

/**
 * @param onHeld called with the session that holds the lock; undefined: it has just ended
 * @returns undefined if another synchroniser works on this database
 * @throws SessionLostError if the server is read-only: its lock does not keep others from writing elsewhere
 */
export async function openSession(
	url: string,
	onHeld: (holder: LockHolder | undefined) => void = () => undefined,
): Promise<Session | undefined> {
	let open = false;
	let lost: SessionLostError | undefined;
	const lose = (reason: string, cause?: unknown) => {
		lost ??= new SessionLostError(reason, { cause });
		return lost;
	};
	const sql = connectSingle(url, {
		// The client would reconnect by itself and continue without the lock.
		onclose: () => {
			if (open) lose('the connection to the database was lost');
		},
		connection: {
			application_name: 'company-contacts-sync',
			statement_timeout: 300_000,
			// The server keeps the lock until it notices that this machine has died or left the network: within half a minute, not
			// within the two hours that Linux waits by default.
			tcp_keepalives_idle: 15,
			tcp_keepalives_interval: 5,
			tcp_keepalives_count: 3,
			tcp_user_timeout: 30_000,
		},
	});
	try {
		const row = await withDeadline(takeLock(sql), responseTimeoutMs);
		if (row === timedOut) throw lose('the database does not respond');
		if (row.read_only) throw lose('the database is read-only');
		open = true;
		if (!row.locked) {
			const holder = await withDeadline(findLockHolder(sql), responseTimeoutMs);
			if (holder === timedOut) throw lose('the database does not respond');
			onHeld(holder);
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

	/** Rejects when the server never received the statement: a broken connection loses it without an error. */
	function watch(backend: Backend): { lost: Promise<never>; stop(): void } {
		let stopped = false;
		let timer: NodeJS.Timeout | undefined;
		const unresponsive = new Promise<never>((_, reject) => {
			const check = async () => {
				const gone = await endIfIdle(url, backend);
				if (stopped) return;
				if (gone) return reject(lose('the connection to the database does not respond'));
				timer = setTimeout(check, watchIntervalMs);
			};
			timer = setTimeout(check, watchIntervalMs);
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

/**
 * Checks whether the backend of a waiting session executes a statement. The check uses another connection, which may lead to
 * another server by now. An idle backend is ended: its lock becomes free, and a statement that it has not received is never
 * executed.
 *
 * @returns whether the backend no longer exists; false also when nobody responds in time
 */
async function endIfIdle(url: string, backend: Backend): Promise<boolean> {
	const sql = connectSingle(url, { connection: { application_name: 'company-contacts-sync' } });
	try {
		return (await withDeadline(endIdleBackend(sql, backend), responseTimeoutMs)) === false;
	} catch {
		return false;
	} finally {
		void sql.end({ timeout: 0 }).catch(() => undefined);
	}
}
