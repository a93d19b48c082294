import { CommanderError } from 'commander';
import { describeError } from './describe-error.js';
import { UsageError } from './errors.js';
import { printNote } from './output.js';
import { createProgram } from './program.js';
import { type Streams, withStreams } from './streams.js';

/**
 * Runs the operator's command to its end.
 *
 * @param args the arguments after `contacts`
 * @returns its exit code: 0 on success, 1 on failure, 2 on wrong usage
 */
export async function runContacts(args: string[], environment: NodeJS.ProcessEnv, streams: Streams): Promise<number> {
	let code = 0;
	const isIncomplete = await withStreams(streams, async () => {
		try {
			await createProgram(environment).parseAsync(args, { from: 'user' });
		} catch (error) {
			code = exitCode(error);
		}
	});
	return code === 0 && isIncomplete ? 1 : code;
}

function exitCode(error: unknown): number {
	// Commander has printed it already.
	if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
	const usage = error instanceof UsageError;
	// Wrong usage may concern several settings, with one line each. Text from a file gets no separate line.
	const [first = '', ...others] = usage ? error.message.split('\n') : [describeError(error)];
	printNote([{ style: 'red', text: 'error:' }, ` ${first}`], ...others);
	return usage ? 2 : 1;
}
