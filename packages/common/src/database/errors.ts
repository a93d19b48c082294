/** The database failed, could not be reached or did not answer in time. The cause is for the log, never for the caller. */
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

/** A statement was not answered in time. */
export class DeadlineError extends Error {
	override name = 'DeadlineError';
	readonly code = 'QUERY_DEADLINE';

	/**
	 * @param deadline milliseconds
	 * @param hadTurn whether it was sent to the server, or had waited for a connection until then
	 */
	constructor(
		deadline: number,
		readonly hadTurn: boolean,
	) {
		super(`no answer within ${deadline} ms`);
	}
}

/** The SQLSTATE or the client's own code of what went wrong, such as `57P01` or `CONNECTION_CLOSED`. */
export function errorCode(error: unknown): string | undefined {
	const code = (error as { code?: unknown } | null | undefined)?.code;
	return typeof code === 'string' ? code : undefined;
}

const cutOff = new Set(['CONNECTION_CLOSED', 'CONNECTION_DESTROYED', 'CONNECTION_ENDED', 'ECONNRESET', 'EPIPE']);

/** Whether the connection went away beneath a statement without a word of the server, which may know nothing of it. */
export function isCutOff(error: unknown): boolean {
	return cutOff.has(errorCode(error) ?? '');
}

/** Whether the connection went away beneath a statement, so that another connection may well succeed. */
export function isLostConnection(error: unknown): boolean {
	// admin_shutdown and crash_shutdown: the backend was ended.
	return isCutOff(error) || /^57P0[12]$/.test(errorCode(error) ?? '');
}

/** What kept the database from answering, in the words of the metrics. */
export const failureReasons = ['busy', 'deadline', 'connection', 'statement'] as const;

export type FailureReason = (typeof failureReasons)[number];

/**
 * - `busy`: too many waited already
 * - `deadline`: no answer in time, by our clock or by the server's
 * - `connection`: there was none, or it was lost
 * - `statement`: the server said no to this statement
 */
export function failureReason(error: unknown): FailureReason {
	if (error instanceof DatabaseBusyError) return 'busy';
	const cause = error instanceof DatabaseError ? error.cause : error;
	const code = errorCode(cause) ?? '';
	if (code === 'QUERY_DEADLINE' || code === '57014') return 'deadline';
	// SQLSTATE: 08 connection exception, 28 invalid authorization, 53300 too many connections, 57P operator intervention.
	const answered = /^[0-9A-Z]{5}$/.test(code) && code !== 'EPIPE' && !/^(08|28|53300|57P)/.test(code);
	return answered ? 'statement' : 'connection';
}

/**
 * Whether the database refuses this configuration: wrong password or user, no such database, no rights, not migrated.
 * Trying again does not help; somebody has to change something.
 */
export function isRefusal(error: unknown): boolean {
	return /^(28...|3D000|42501|42P01|42703)$/.test(errorCode(error) ?? '');
}
