import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import type { TestContext } from 'vitest';
import { environmentOf, main } from './command.js';

/** Quotes words for a shell, so that no character has a special meaning. */
const quoted = (words: string[]) => words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');

const answers = (program: string, ...args: string[]) => String(spawnSync(program, args).stdout ?? '');

/** How to run a command on its own terminal on this machine: with `script` of util-linux, or with Python. */
function onTerminal(command: string): string[] | undefined {
	if (answers('script', '--version').includes('util-linux'))
		return ['script', '--quiet', '--return', '--command', command, '/dev/null'];
	const python = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))';
	if (answers('python3', '-c', 'import pty; print("pty")').includes('pty'))
		return ['python3', '-c', python, 'sh', '-c', command];
	return undefined;
}

export interface Terminal {
	/** The output so far. */
	output(): string;
	/** Types text at the terminal. */
	type(keys: string): void;
	/** The exit code of the command, once it has ended. */
	ended: Promise<number | null>;
}

/**
 * Runs `contacts` on a terminal. Skips the test, with a note, when no program can create a terminal.
 *
 * @param columns the width of the terminal
 */
export function startOnTerminal(
	skip: TestContext['skip'],
	databaseUrl: string | undefined,
	args: string[],
	{ columns = 100, environment = {} }: { columns?: number; environment?: Record<string, string> } = {},
): Terminal {
	const command = `stty cols ${columns}; exec ${quoted([process.execPath, main, ...args])}`;
	const [program, ...rest] = onTerminal(command) ?? [];
	if (program === undefined) {
		const note =
			'There is neither script (util-linux) nor python3 here to make a terminal: what one shows is not tested.';
		console.warn(note);
		return skip(note);
	}
	const child: ChildProcess = spawn(program, rest, {
		env: { SHELL: '/bin/sh', ...environmentOf(databaseUrl, { TERM: 'xterm', ...environment }) },
		timeout: 110_000,
		killSignal: 'SIGKILL',
	});
	let output = '';
	child.stdout?.setEncoding('utf8').on('data', (text: string) => {
		output += text;
	});
	return {
		output: () => output,
		type: (keys) => void child.stdin?.write(keys),
		ended: once(child, 'close').then(([code]) => code),
	};
}
