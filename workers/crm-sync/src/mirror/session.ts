import type { LockHolder } from '@contacts/common/database/advisory-lock.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { connectSingle } from '@contacts/common/database/connect.js';
import { timedOut, withTimeout } from '@contacts/common/database/deadline.js';
import { classify } from '@contacts/common/database/errors.js';
import { findLockHolder, takeLock } from './session.sql.js';

/** The timeout of the work with a page of contacts. It takes milliseconds. */
const defaultTimeoutMs = 5000;

/** The server's timeout for each statement. To publish a million contacts takes about two minutes. */
const statementTimeoutMs = 300_000;

/** For `run`, with statements over all contacts: the server ends them. */
export const allContacts = { timeoutMs: statementTimeoutMs + defaultTimeoutMs };

/** The connection of the working synchroniser. It holds the lock, so nobody else writes what it writes. */
export interface Session {
	/** @throws SessionLostError if the server is read-only or does not respond, and whenever the connection is lost */
	run<T>(work: (sql: Sql) => Promise<T>, options?: { timeoutMs: number }): Promise<T>;
	close(): Promise<void>;
}

/** The connection was lost, and with it the lock: another synchroniser may work now. */
export class SessionLostError extends Error {
	override name = 'SessionLostError';
	/** Whether the server was read-only: it may stay so for long. */
	isReadOnly = false;
}

/**
 * @param onHeld called with the session that holds the lock; undefined: it has just ended
 * @param beforeLock what has to be so before the lock is taken
 * @returns undefined if another synchroniser works on this database
 * @throws SessionLostError if the server is read-only: its lock does not keep others from writing elsewhere
 */
export async function openSession(
	url: string,
	onHeld: (holder: LockHolder | undefined) => void = () => undefined,
	beforeLock: (sql: Sql) => Promise<void> = async () => undefined,
): Promise<Session | undefined> {
	let open = false;
	let lost: SessionLostError | undefined;
	const lose = (reason: string, cause?: unknown) => {
		lost ??= new SessionLostError(reason, { cause });
		return lost;
	};
	const loseReadOnly = (cause?: unknown) =>
		Object.assign(lose('the database is read-only', cause), { isReadOnly: true });
	const sql = connectSingle(url, {
		// The client would reconnect by itself and continue without the lock.
		onclose: () => {
			if (open) lose('the connection to the database was lost');
		},
		connection: {
			application_name: 'crm-sync',
			statement_timeout: statementTimeoutMs,
			// The server keeps the lock until it notices that this machine has died or left the network: within half a minute, not
			// within the two hours that Linux waits by default.
			tcp_keepalives_idle: 15,
			tcp_keepalives_interval: 5,
			tcp_keepalives_count: 3,
			tcp_user_timeout: 30_000,
		},
	});

	async function run<T>(
		work: (client: Sql) => Promise<T>,
		{ timeoutMs } = { timeoutMs: defaultTimeoutMs },
	): Promise<T> {
		if (lost) throw lost;
		try {
			const result = await withTimeout(work(sql), timeoutMs);
			if (result === timedOut) throw lose('the database does not respond');
			return result;
		} catch (error) {
			const { kind } = classify(error);
			if (kind === 'read-only') throw loseReadOnly(error);
			if (kind === 'lost') throw lose('the connection to the database was lost', error);
			throw lost ?? error;
		}
	}

	async function close(): Promise<void> {
		open = false;
		await sql.end({ timeout: lost ? 0 : 5 });
	}

	try {
		await run(beforeLock);
		const row = await run(takeLock);
		if (row.read_only) throw loseReadOnly();
		open = true;
		if (row.locked) return { run, close };
		onHeld(await run(findLockHolder));
		await close();
		return undefined;
	} catch (error) {
		await sql.end({ timeout: 0 });
		throw error;
	}
}
