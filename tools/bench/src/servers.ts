import { freePort } from '@contacts/local-postgres/server.js';
import { send } from '@contacts/testing/load.js';
import { type RunningProcess, startProcess } from '@contacts/testing/process.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import type { Lifetime } from './lifetime.js';

/** A server in a separate process. */
export interface RunningServer {
	url: string;
	pid: number;
	process: RunningProcess;
	/** Milliseconds from the start of the process until /health/ready responded with 200. */
	startedIn: number;
	/** Stops it gracefully and waits until it has exited. */
	stop(): Promise<void>;
}

export interface ServerCommand {
	/** Arguments of node: its flags, then the program. */
	args: string[];
	/** Its whole environment except PATH and PORT. */
	env: Record<string, string>;
	/** Whether Ctrl-C reaches only this process, which then stops the server itself. */
	detached?: boolean;
	/** How many characters of its log to keep. Default: it logs to /dev/null, so that only the server pays for the log. */
	keepLast?: number;
}

/**
 * Starts a server without this process's environment. It ends when this process is killed.
 *
 * @throws Error with its output, when it isn't ready within a minute
 */
export async function startServer(lifetime: Lifetime, command: ServerCommand): Promise<RunningServer> {
	const { args, env, detached = false, keepLast = 0 } = command;
	const port = await freePort();
	const begun = performance.now();
	const server = startProcess(process.execPath, args, {
		env: { PATH: process.env.PATH, NODE_ENV: 'production', HOST: '127.0.0.1', ...env, PORT: String(port) },
		ipc: true,
		detached,
		keepLast,
	});
	const stop = lifetime.own(() => server.stop());
	const url = `http://127.0.0.1:${port}`;
	const message = () => `${args.at(-1)} did not become ready. ${server.output().trim()}`;
	const isReady = async () => (await send(url, { method: 'GET', path: '/health/ready' })).result === 200;
	await waitUntil(async () => server.hasExited || (await isReady()), { timeoutMs: 60_000, intervalMs: 2, message });
	if (server.hasExited) throw new Error(message());
	return { url, pid: server.pid, process: server, startedIn: performance.now() - begun, stop };
}
