import { databaseUrlForm } from '@contacts/common/database/database-url.js';
import { describeDatabaseError } from '@contacts/common/database/errors.js';

/** A failure with a one-line message that says what to do next; exit 1. */
export class CommandError extends Error {}

/** Wrong usage of the command; exit 2. */
export class UsageError extends Error {}

/** Standard output can't be written. With the code EPIPE its reader has closed it, as `head` does, which is no failure. */
export class OutputError extends CommandError {
	constructor(readonly code: string | undefined) {
		super(`Standard output can't be written (${code}).`);
	}
}

/** Describes an error in one line, with the next step where there is one. */
export function describeError(error: unknown): string {
	if (error instanceof CommandError || error instanceof UsageError) return error.message;
	const { code, message } = error as { code?: string; message?: string };
	if (code === '42501') return 'The database user may not do this: connect as the operator or as the owner.';
	if (code === '25006') return 'The database is read-only: set DATABASE_URL to the primary server.';
	if (code === 'ERR_INVALID_URL') return `DATABASE_URL is wrong: it must be ${databaseUrlForm}.`;
	return describeDatabaseError(error) ?? (message ?? String(error)).split('\n', 1)[0] ?? 'unknown error';
}
