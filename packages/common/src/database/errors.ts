/** The database failed, could not be reached or did not respond in time. The cause is for the log, never for the caller. */
export class DatabaseError extends Error {
	override name = 'DatabaseError';
	constructor(cause: unknown) {
		super('the database failed', { cause });
	}
}

/** More callers wait for the database than the service lets wait. */
export class DatabaseBusyError extends Error {
	override name = 'DatabaseBusyError';
	constructor() {
		super('too many requests wait for the database');
	}
}

/** A statement had no response in time. */
export class DeadlineError extends Error {
	override name = 'DeadlineError';
	readonly code = 'QUERY_DEADLINE';

	/**
	 * @param hadTurn whether it was sent to the server, or had waited for a connection until then
	 */
	constructor(
		deadlineMs: number,
		readonly hadTurn: boolean,
	) {
		super(`no response within ${deadlineMs} ms`);
	}
}

/** The SQLSTATE or the client's own code of what went wrong, such as `57P01` or `CONNECTION_CLOSED`. */
export function errorCode(error: unknown): string | undefined {
	const code = (error as { code?: unknown } | null | undefined)?.code;
	return typeof code === 'string' ? code : undefined;
}

const lostConnection = new Set([
	'CONNECTION_CLOSED',
	'CONNECTION_DESTROYED',
	'CONNECTION_ENDED',
	'ECONNABORTED',
	'ECONNRESET',
	'EHOSTDOWN',
	'EHOSTUNREACH',
	'ENETDOWN',
	'ENETRESET',
	'ENETUNREACH',
	'EPIPE',
	'ETIMEDOUT',
]);

/** Before the connection stood, so no statement was sent. */
const neverConnected = new Set(['CONNECT_TIMEOUT', 'EAI_AGAIN', 'ECONNREFUSED', 'ENOTFOUND', 'NO_SUITABLE_SERVER']);

/** What an error says of the statement that failed with it. */
interface Verdict {
	/** The connection went away beneath it, so that another connection may well succeed. */
	lost: boolean;
	/** The server can't be written: it is a standby, or a primary that no longer is one. */
	readOnly: boolean;
	/** The server refused it for a reason that may pass. */
	temporary: boolean;
	/** It is proven that the statement has changed nothing and never will. */
	unwritten: boolean;
}

/**
 * The one place that knows what an error means for sending a statement again.
 *
 * An ERROR of the server proves that nothing was changed: it has rolled the statement back, and said so on the connection that
 * goes on. A FATAL error proves it where the server did not take the connection. Those by which it ends an open connection
 * (57P01 admin_shutdown, 57P02 crash_shutdown, 57P05 idle_session_timeout, and what a pooler says in class 08) may come after a
 * commit, so they are no more than a lost connection. So is every error of the network but a connection that never stood.
 */
export function judge(error: unknown): Verdict {
	const code = errorCode(error) ?? '';
	const fromServer = typeof (error as { severity?: unknown } | null | undefined)?.severity === 'string';
	const lost = lostConnection.has(code) || (fromServer && /^(08|57P0[125])/.test(code));
	return {
		lost,
		readOnly: code === '25006',
		// serialization_failure, deadlock_detected, lock_not_available, query_canceled (by the time limit), cannot_connect_now
		temporary: /^(40001|40P01|55P03|57014|57P03)$/.test(code),
		unwritten: neverConnected.has(code) || (fromServer && !lost),
	};
}

/** Whether the connection went away beneath a statement, so that another connection may well succeed. */
export function isLostConnection(error: unknown): boolean {
	return judge(error).lost;
}

/** Why the database failed a request, in the words of the metrics. */
export const failureReasons = ['busy', 'deadline', 'connection', 'statement'] as const;

export type FailureReason = (typeof failureReasons)[number];

/**
 * - `busy`: too many waited already
 * - `deadline`: no response in time, by our clock or by the server's
 * - `connection`: there was none, or it was lost
 * - `statement`: the server said no to this statement
 */
export function failureReason(error: unknown): FailureReason {
	if (error instanceof DatabaseBusyError) return 'busy';
	const cause = error instanceof DatabaseError ? error.cause : error;
	const code = errorCode(cause) ?? '';
	if (code === 'QUERY_DEADLINE' || code === '57014') return 'deadline';
	// SQLSTATE: 08 connection exception, 25006 read-only server, 28 invalid authorization, 53300 too many connections, 57P operator intervention.
	const isFromServer = /^[0-9A-Z]{5}$/.test(code) && code !== 'EPIPE' && !/^(08|25006|28|53300|57P)/.test(code);
	return isFromServer ? 'statement' : 'connection';
}

/**
 * Whether the database refuses this configuration: wrong password or user, no such database, no rights, not migrated.
 * Trying again does not help; somebody has to change something.
 */
export function isRefusal(error: unknown): boolean {
	return /^(28...|3D000|42501|42P01|42703)$/.test(errorCode(error) ?? '');
}
