import { runContacts } from './program.js';

/** What a shell reports for a program that SIGPIPE ends. */
const readerClosed = 141;

process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
	// A reader such as `head` has closed the output, which is no failure. A command prints after its work.
	if (code === 'EPIPE') process.exit(readerClosed);
	process.stderr.write(`error: Standard output can't be written (${code}).\n`);
	process.exit(1);
});
process.stderr.on('error', () => undefined);
process.exitCode = await runContacts(process.argv.slice(2), process.env, process);
