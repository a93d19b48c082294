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
