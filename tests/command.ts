import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { runContacts } from '@contacts/cli/program.js';
import { environmentOf } from '@contacts/testing/process.js';

export interface CommandOutcome {
	code: number | string;
	out: string;
	error: string;
}

/** Runs `contacts` within this process, to its end. A new process takes a second to start, and is needed only for signals. */
export async function contacts(args: string[], environment: Record<string, string>): Promise<CommandOutcome> {
	const [stdout, stderr] = [new PassThrough(), new PassThrough()];
	const written = [text(stdout), text(stderr)];
	const code = await runContacts(args, environmentOf(environment), { stdin: Readable.from([]), stdout, stderr });
	for (const stream of [stdout, stderr]) stream.end();
	const [out = '', error = ''] = await Promise.all(written);
	return { code, out, error };
}
