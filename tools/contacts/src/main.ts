import { CommanderError } from 'commander';
import { describeError } from './describe-error.js';
import { UsageError } from './failure.js';
import { printNote } from './output.js';
import { createProgram } from './program.js';

try {
	await createProgram(process.env).parseAsync(process.argv);
} catch (error) {
	process.exitCode = exitCode(error);
}

function exitCode(error: unknown): number {
	// Commander has said it already.
	if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
	const usage = error instanceof UsageError;
	// Wrong usage may be several settings, a line for each. What came from a file is no line of its own.
	const [first = '', ...others] = usage ? error.message.split('\n') : [describeError(error)];
	printNote([{ style: 'red', text: 'error:' }, ` ${first}`], ...others);
	return usage ? 2 : 1;
}
