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

/**
 * Whether the database refuses this configuration: wrong password or user, no such database, no rights, not migrated.
 * Trying again does not help; somebody has to change something.
 */
export function isRefusal(error: unknown): boolean {
	return /^(28...|3D000|42501|42P01|42703)$/.test(errorCode(error) ?? '');
}
