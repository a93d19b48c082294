import { execa } from 'execa';
import { waitUntil } from './wait-until.js';

export interface RunningProcess {
	readonly pid: number;
	/** What it has written so far. */
	stdout(): string;
	stderr(): string;
	/** Both, in the order of arrival. */
	output(): string;
	/** Its exit code, or the signal that ended it. Resolves after it has ended and all its output was read. */
	readonly exit: Promise<number | string>;
	readonly hasExited: boolean;
	/** Sends a signal and does not wait. */
	kill(signal: NodeJS.Signals): void;
	/** Sends a signal, SIGTERM by default, and waits until the process has ended. */
	stop(signal?: NodeJS.Signals): Promise<void>;
	/** Closes the channel of a process that was started with `ipc`, as the death of its parent would. */
	disconnect(): void;
	/**
	 * Waits until a line of its output matches.
	 *
	 * @throws Error with its output when it ends before that, or after 110 seconds
	 */
	waitForLine(pattern: RegExp): Promise<RegExpExecArray>;
}

export interface ProcessOptions {
	/** Its whole environment. Default: only what any process needs. */
	env?: NodeJS.ProcessEnv;
	cwd?: string;
	/** Whether to start a new process group, which signals of the terminal do not reach. */
	detached?: boolean;
	/** Whether to open an IPC channel to this process. A service stops when its parent closes it. */
	ipc?: boolean;
	/** Standard input. Default: none. */
	input?: string | Buffer;
	/** Whether standard output is read. `ignore`: it is /dev/null. */
	stdout?: 'pipe' | 'ignore';
}

/** The environment of a process: only those variables of the test that any process needs. */
export function environmentOf(more: Record<string, string | undefined> = {}): NodeJS.ProcessEnv {
	const { PATH, HOME, TMPDIR } = process.env;
	return { PATH: `${PATH}:/usr/sbin`, HOME, TMPDIR, ...more };
}

/**
 * Starts a program. It is killed when this process ends, whatever the result of the test.
 *
 * @throws Error when there is no such program on the PATH
 */
export function startProcess(
	command: string,
	args: readonly string[] = [],
	{ env = environmentOf(), ipc = false, input, stdout = 'pipe', ...rest }: ProcessOptions = {},
): RunningProcess {
	const child = execa(command, args, {
		...rest,
		...(input === undefined ? { stdin: 'ignore' } : { input }),
		env,
		extendEnv: false,
		// The default is 5 seconds, which a graceful stop may take on a busy machine.
		forceKillAfterDelay: 60_000,
		reject: false,
		buffer: false,
		// Output arrives in arbitrary pieces, not line by line.
		stdout,
		stderr: 'pipe',
		...(ipc ? { ipc: true } : {}),
	});
	const written = { stdout: '', stderr: '', output: '' };
	for (const name of ['stdout', 'stderr'] as const) {
		child[name]?.setEncoding('utf8').on('data', (text: string) => {
			written[name] += text;
			written.output += text;
		});
	}
	let exited = false;
	const exit = child.then((result) => {
		exited = true;
		if (result.exitCode === undefined && result.signal === undefined) throw result;
		return (result.exitCode ?? result.signal) as number | string;
	});
	exit.catch(() => undefined);
	if (child.pid === undefined) throw new Error(`${command} could not be started: is it on the PATH?`);
	return {
		pid: child.pid,
		stdout: () => written.stdout,
		stderr: () => written.stderr,
		output: () => written.output,
		exit,
		get hasExited() {
			return exited;
		},
		kill: (signal) => void child.kill(signal),
		async stop(signal = 'SIGTERM') {
			// This does nothing if the process has already ended, which its output does not show.
			child.kill(signal);
			await exit;
		},
		disconnect: () => child.disconnect?.(),
		async waitForLine(pattern) {
			await waitUntil(() => pattern.test(written.output) || exited, {
				timeoutMs: 110_000,
				message: () => `no line ${pattern} within 110 s:\n${written.output}`,
			});
			const found = pattern.exec(written.output);
			if (found === null) throw new Error(`${command} ended before a line ${pattern}:\n${written.output}`);
			return found;
		},
	};
}
