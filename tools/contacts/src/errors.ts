/** A failure that is said in one line, with what to do next; exit 1. */
export class CommandError extends Error {}

/** A wrong call of the command; exit 2. */
export class UsageError extends Error {}
