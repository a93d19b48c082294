import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { get } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '@contacts/local-postgres/server.js';
import type { Lifetime } from './lifetime.js';

/** A server in a separate process. */
export interface RunningServer {
	url: string;
	pid: number;
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
}

const readyWithin = 60_000;

/**
 * Starts a server without this process's environment. It logs to /dev/null, so the cost of a log collector is not
 * measured, but the cost of writing the lines is.
 *
 * @throws Error with its standard error, when it isn't ready in time
 */
export async function startServer(lifetime: Lifetime, { args, env }: ServerCommand): Promise<RunningServer> {
	const port = await freePort();
	const begun = performance.now();
	// The IPC channel also ends the server when this process is killed.
	const child = spawn(process.execPath, args, {
		env: { PATH: process.env.PATH ?? '', NODE_ENV: 'production', HOST: '127.0.0.1', ...env, PORT: String(port) },
		stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
	});
	let complaints = '';
	child.stderr?.setEncoding('utf8').on('data', (text: string) => {
		complaints = (complaints + text).slice(-4000);
	});
	const exited = once(child, 'exit');
	const running = () => child.exitCode === null && child.signalCode === null;
	const stop = lifetime.own(async () => {
		if (running()) child.kill('SIGTERM');
		const timer = setTimeout(() => child.kill('SIGKILL'), 15_000);
		await exited;
		clearTimeout(timer);
	});

	const url = `http://127.0.0.1:${port}`;
	while (!(await answersReady(url))) {
		if (!running() || performance.now() - begun > readyWithin) {
			await stop();
			throw new Error(`${args.at(-1)} did not become ready. ${complaints.trim()}`);
		}
		await delay(2);
	}
	return { url, pid: child.pid ?? 0, startedIn: performance.now() - begun, stop };
}

function answersReady(url: string): Promise<boolean> {
	return new Promise((resolve) => {
		get(`${url}/health/ready`, { agent: false }, (response) => {
			response.resume();
			resolve(response.statusCode === 200);
		}).on('error', () => resolve(false));
	});
}

/** The path of a built program of this package. */
export function programOf(name: string): string {
	return fileURLToPath(new URL(`../dist/${name}.js`, import.meta.url));
}
