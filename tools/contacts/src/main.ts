import { CommanderError } from 'commander';
import { Failure, UsageError } from './failure.js';
import { createProgram } from './program.js';

try {
	await createProgram(process.env).parseAsync(process.argv);
} catch (error) {
	process.exitCode = exitCode(error);
}

function exitCode(error: unknown): number {
	// Commander has said it already.
	if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
	process.stderr.write(`error: ${describe(error)}\n`);
	return error instanceof UsageError ? 2 : 1;
}

/** One line, with the next step where there is one. */
function describe(error: unknown): string {
	if (error instanceof Failure || error instanceof UsageError) return error.message;
	const { code, message } = error as { code?: string; message?: string };
	if (code === '42P01') return 'The database has no tables yet: run "contacts migrate" first.';
	if (code === '42501') return 'The database user may not do this: connect as the operator or as the owner.';
	if (code === '3D000') return 'The database that DATABASE_URL names does not exist.';
	if (code?.startsWith('28')) return 'The database refuses the user or the password in DATABASE_URL.';
	if (code === 'ECONNREFUSED' || code === 'CONNECT_TIMEOUT' || code === 'ENOTFOUND' || code === 'CONNECTION_CLOSED') {
		return `The database does not answer (${code}). Is it running, and is DATABASE_URL right?`;
	}
	return (message ?? String(error)).split('\n', 1)[0] ?? 'unknown error';
}
