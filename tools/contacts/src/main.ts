import { CommanderError } from 'commander';
import { describeError } from './describe-error.js';
import { UsageError } from './failure.js';
import { createProgram } from './program.js';
import { onError } from './style.js';

try {
	await createProgram(process.env).parseAsync(process.argv);
} catch (error) {
	process.exitCode = exitCode(error);
}

function exitCode(error: unknown): number {
	// Commander has said it already.
	if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
	process.stderr.write(`${onError('red', 'error:')} ${describeError(error)}\n`);
	return error instanceof UsageError ? 2 : 1;
}
