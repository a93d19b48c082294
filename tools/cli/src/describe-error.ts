import { describeDatabaseError } from '@contacts/common/database/errors.js';
import { CommandError, UsageError } from './errors.js';

/** Describes an error in one line, with the next step where there is one. */
export function describeError(error: unknown): string {
	if (error instanceof CommandError || error instanceof UsageError) return error.message;
	const { code, message } = error as { code?: string; message?: string };
	if (code === '42501') return 'The database user may not do this: connect as the operator or as the owner.';
	if (code === '25006') return 'The database is read-only: set DATABASE_URL to the primary server.';
	if (code === 'ERR_INVALID_URL') return 'DATABASE_URL is no URL like postgres://user:password@host:5432/database.';
	return describeDatabaseError(error) ?? (message ?? String(error)).split('\n', 1)[0] ?? 'unknown error';
}
