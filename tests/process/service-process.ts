import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { ServiceName } from '../../packages/common/src/auth/key-ring.sql.js';

/** A service as its users run it: the built program, as a process of its own. */
export interface ServiceProcess {
	child: ChildProcess;
	/** Lines of its log so far. */
	log(): { msg: string; [field: string]: unknown }[];
	/** What it has written to standard error so far. */
	errors(): string;
	/** Everything that it has written so far. */
	output(): string;
	/** The address at which it listens, as soon as it does; it rejects when the process ends before. */
	listening(): Promise<string>;
	/** Its exit code, or the signal that ended it, after it has ended and all its output was read. */
	exit: Promise<number | string>;
}

/** Starts a service with nothing in its environment but this; a free port is used where none is given. */
export function startServiceProcess(name: ServiceName, environment: Record<string, string>): ServiceProcess {
	const main = fileURLToPath(new URL(`../../services/${name}/dist/main.js`, import.meta.url));
	const child = spawn(process.execPath, [main], {
		env: { PORT: '0', ...environment },
		stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
	}) as ChildProcessByStdio<null, Readable, Readable>;
	onTestFinished(() => void child.kill('SIGKILL'));
	const { stdout, stderr } = child;
	let written = '';
	let complaints = '';
	stdout.setEncoding('utf8').on('data', (text) => {
		written += text;
	});
	stderr.setEncoding('utf8').on('data', (text) => {
		complaints += text;
	});
	// Not the process's `close`, which does not come after the channel was disconnected.
	const exit = Promise.all([once(child, 'exit'), once(stdout, 'close'), once(stderr, 'close')]).then(
		([[code, signal]]): number | string => code ?? signal,
	);
	const log = () =>
		written
			.split('\n')
			.slice(0, -1)
			.map((line) => JSON.parse(line));
	return {
		child,
		log,
		errors: () => complaints,
		output: () => written + complaints,
		exit,
		async listening() {
			for (;;) {
				for (const { msg } of log()) {
					const address = /^Server listening at (.+)$/.exec(msg)?.[1];
					if (address !== undefined) return address;
				}
				const ended = await Promise.race([once(stdout, 'data'), exit]);
				if (!Array.isArray(ended)) throw new Error(`it ended before it listened: ${complaints}`);
			}
		},
	};
}
