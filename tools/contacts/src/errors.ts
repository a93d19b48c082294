/** A failure with a one-line message that says what to do next; exit 1. */
export class CommandError extends Error {}

/** Wrong usage of the command; exit 2. */
export class UsageError extends Error {}
