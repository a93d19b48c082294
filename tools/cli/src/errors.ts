import { constants } from 'node:os';
import { databaseUrlForm, parseDatabaseUrl } from '@contacts/common/database/database-url.js';
import { describeDatabaseError } from '@contacts/common/database/errors.js';
import { ConfigError } from '@contacts/common/process/config.js';

/** A failure with a one-line message that says what to do next; exit 1. */
export class CommandError extends Error {}

/** Wrong usage of the command; exit 2. */
export class UsageError extends Error {}

/** A signal has ended the work early; its exit code is that of a shell. */
export class InterruptedError extends CommandError {
	constructor(
		readonly signal: NodeJS.Signals,
		message = 'Interrupted: nothing was done.',
	) {
		super(message);
	}
}

const connectionLost = 'The connection to the database was lost. Try again.';

/** What an error with this SQLSTATE or code means for the person at the command. */
const meanings: Record<string, string> = {
	'25006': 'The database is read-only: set DATABASE_URL to the primary server.',
	'42501':
		'The database user may not do this: connect as contacts_privacy for "contacts person", else as the operator or the owner.',
	CONNECTION_CLOSED: connectionLost,
	CONNECTION_ENDED: connectionLost,
	// The lost connection was written to before its end was read.
	ECONNRESET: connectionLost,
	EPIPE: connectionLost,
	'55P03': 'Somebody else has been writing for 10 seconds, so this was not done. Try again, or stop them.',
	ERR_INVALID_URL: `DATABASE_URL is wrong: it must be ${databaseUrlForm}.`,
};

/** Describes an error in one line, with the next step where there is one. */
export function describeError(error: unknown, { DATABASE_URL = '' }: NodeJS.ProcessEnv): string {
	const { code = '', message } = error as { code?: string; message?: string };
	if (error instanceof CommandError || error instanceof UsageError) return error.message;
	if (error instanceof ConfigError) return error.lines.join('; ');
	return (
		meanings[code] ??
		describeDatabaseError(error, parseDatabaseUrl(DATABASE_URL)?.hostList) ??
		(message ?? String(error)).split('\n', 1)[0] ??
		''
	);
}

/** The exit code of a command that has thrown this. A wrong variable is wrong usage too. */
export function exitCodeOf(error: unknown): number {
	if (error instanceof InterruptedError) return 128 + constants.signals[error.signal];
	return error instanceof UsageError || error instanceof ConfigError ? 2 : 1;
}
