import { CommanderError } from 'commander';
import { describeError, OutputError, UsageError } from './errors.js';
import { finishOutput, printNote } from './output.js';
import { createProgram } from './program.js';
import { isIncomplete, type Streams, withStreams } from './streams.js';

/** What a shell reports for a program that is ended because the reader of its output has closed it (SIGPIPE). */
const readerClosed = 141;

/**
 * Runs the operator's command to its end.
 *
 * @param args the arguments after `contacts`
 * @returns its exit code: 0 on success, 1 on failure, 2 on wrong usage, 141 when the reader of its output has closed it
 */
export function runContacts(args: string[], environment: NodeJS.ProcessEnv, streams: Streams): Promise<number> {
	return withStreams(streams, async () => {
		try {
			await createProgram(environment).parseAsync(args, { from: 'user' });
			if (isIncomplete()) return 1;
			await finishOutput();
			return 0;
		} catch (error) {
			return exitCode(error);
		}
	});
}

function exitCode(error: unknown): number {
	// Commander has printed it already.
	if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
	if (error instanceof OutputError && error.code === 'EPIPE') return readerClosed;
	const usage = error instanceof UsageError;
	// Wrong usage may concern several settings, with one line each. Text from a file gets no separate line.
	const [first = '', ...others] = usage ? error.message.split('\n') : [describeError(error)];
	printNote(['error:', ` ${first}`], ...others);
	return usage ? 2 : 1;
}
