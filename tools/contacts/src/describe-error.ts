import { isUnreachable } from '@contacts/common/database/errors.js';
import { CommandError, UsageError } from './errors.js';

/** Describes an error in one line, with the next step where there is one. */
export function describeError(error: unknown): string {
	if (error instanceof CommandError || error instanceof UsageError) return error.message;
	const { code, message } = error as { code?: string; message?: string };
	if (code === '42P01') return 'The database has no tables yet: run "contacts migrate" first.';
	if (code === '42883') return 'The schema of the database is older than this release: run "contacts migrate" first.';
	if (code === '42501') return 'The database user may not do this: connect as the operator or as the owner.';
	if (code === '25006') return 'The database is read-only: set DATABASE_URL to the primary server.';
	if (code === '3D000') return 'The database that DATABASE_URL names does not exist.';
	if (code?.startsWith('28')) return 'The database refuses the user or the password in DATABASE_URL.';
	if (code === 'ERR_INVALID_URL') return 'DATABASE_URL is no URL like postgres://user:password@host:5432/database.';
	if (code === 'NO_SUITABLE_SERVER') return `The database can't be used: ${message}.`;
	if (isUnreachable(error)) {
		return `The database does not respond (${code}). Is it running, and is DATABASE_URL right?`;
	}
	return (message ?? String(error)).split('\n', 1)[0] ?? 'unknown error';
}
