import { constants } from 'node:os';
import { parseDatabaseUrl } from '@contacts/common/database/database-url.js';
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

/** Describes an error in one line, with the next step where there is one. */
export function describeError(error: unknown, { DATABASE_URL = '' }: NodeJS.ProcessEnv): string {
	if (error instanceof CommandError || error instanceof UsageError) return error.message;
	if (error instanceof ConfigError) return error.lines.join('; ');
	const { message = String(error) } = error as { message?: string };
	return (
		describeDatabaseError(error, 'command', parseDatabaseUrl(DATABASE_URL)?.hostList) ?? message.replace(/\n.*/s, '')
	);
}

/** The exit code of a command that has thrown this. A wrong variable is wrong usage too. */
export function exitCodeOf(error: unknown): number {
	if (error instanceof InterruptedError) return 128 + constants.signals[error.signal];
	return error instanceof UsageError || error instanceof ConfigError ? 2 : 1;
}
