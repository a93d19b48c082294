/** The database failed, could not be reached or did not respond in time. The cause is for the log, never for the caller. */
export class DatabaseError extends Error {
	override name = 'DatabaseError';
	constructor(cause: unknown) {
		super('the database failed', { cause });
	}
}

/** The product can't use this database. The message is one line for people, with what to do. */
export class UnsupportedDatabaseError extends Error {
	override name = 'UnsupportedDatabaseError';
}

/** Too many callers wait for the database. */
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

	/** @param hadTurn true: it was sent to the server; false: it still waited for a connection */
	constructor(
		deadlineMs: number,
		readonly hadTurn: boolean,
	) {
		super(`no response within ${deadlineMs} ms`);
	}
}

/** The SQLSTATE or the client's code of an error, such as `57P01` or `CONNECTION_CLOSED`. */
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

/** Errors from before the connection was open, so no statement was sent. */
const neverConnected = new Set([
	'CLEARTEXT_PASSWORD',
	'CONNECT_TIMEOUT',
	'EAI_AGAIN',
	'ECONNREFUSED',
	'ENOTFOUND',
	'NO_SUITABLE_SERVER',
]);

/** What an error means for its statement. */
interface Verdict {
	/** The connection was lost during the statement, so another connection may succeed. */
	lost: boolean;
	/** The server is read-only: a standby, or a former primary. */
	readOnly: boolean;
	/** The server refused it for a temporary reason. */
	temporary: boolean;
	/** The statement has certainly changed nothing and never will. */
	unwritten: boolean;
}

/**
 * Decides what an error means for sending a statement again. Nothing else decides this.
 *
 * An ERROR of the server proves that nothing was changed: the server has rolled the statement back, and the connection
 * stays open. A FATAL error proves it if the server did not accept the connection. Other FATAL errors end an open
 * connection: 57P01 admin_shutdown, 57P02 crash_shutdown, 57P05 idle_session_timeout, and class 08 from a pooler. They may
 * come after a commit, so they prove no more than a lost connection does. The same holds for every network error, unless
 * the connection was never open.
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

/** Whether the connection was lost during a statement, so another connection may succeed. */
export function isLostConnection(error: unknown): boolean {
	return judge(error).lost;
}

/** Whether the server could not be reached, or has closed the connection. */
export function isUnreachable(error: unknown): boolean {
	const code = errorCode(error) ?? '';
	return lostConnection.has(code) || neverConnected.has(code);
}

/** Why the database failed a request, as a label of the metrics. */
export const failureReasons = ['busy', 'deadline', 'connection', 'statement'] as const;

export type FailureReason = (typeof failureReasons)[number];

/**
 * - `busy`: too many callers waited
 * - `deadline`: no response in time, by our clock or by the server's
 * - `connection`: it could not be opened, or was lost
 * - `statement`: the server rejected this statement
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
 * Whether the database rejects this configuration: wrong password or user, no such database, no rights, not migrated, an
 * unknown or invalid parameter in the URL, or a password that would have to be sent in clear. A retry does not help. An operator has to change something.
 */
export function isRefusal(error: unknown): boolean {
	return /^(22023|28...|3D000|42501|42P01|42703|42704|CLEARTEXT_PASSWORD)$/.test(errorCode(error) ?? '');
}

/** One line on what is wrong with the database, for the person who set `DATABASE_URL`. Undefined for any other error. */
export function describeDatabaseError(error: unknown): string | undefined {
	if (error instanceof UnsupportedDatabaseError) return error.message;
	const code = errorCode(error) ?? '';
	if (code === '42P01') return 'The database has no tables yet: run "contacts migrate" first.';
	if (/^42(703|883)$/.test(code))
		return 'The tables of the database are older than this release: run "contacts migrate" first.';
	if (/^(22023|42704)$/.test(code) && (error as { severity?: string }).severity === 'FATAL')
		return 'DATABASE_URL is wrong: the server refuses one of its parameters.';
	if (code === '3D000') return 'The database that DATABASE_URL names does not exist.';
	if (code.startsWith('28')) return 'The database refuses the user or the password in DATABASE_URL.';
	if (code === 'CLEARTEXT_PASSWORD')
		return 'The database asks for the password in clear, so it was not sent: use sslmode=verify-full in DATABASE_URL, or scram-sha-256 on the server.';
	if (code === 'NO_SUITABLE_SERVER') return `The database can't be used: ${(error as Error).message}.`;
	return isUnreachable(error)
		? `The database does not respond (${code}). Is it running, and is DATABASE_URL right?`
		: undefined;
}
