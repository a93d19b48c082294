import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { get } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '@contacts/local-postgres/server.js';
import type { Lifetime } from './lifetime.js';

/** A server as a process of its own. */
export interface RunningServer {
	url: string;
	pid: number;
	/** Milliseconds from the start of the process until /health/ready answered with 200. */
	startedIn: number;
	/** Ends it in order and waits until it is gone. */
	stop(): Promise<void>;
}

export interface ServerCommand {
	/** Arguments of node: its flags, then the program. */
	args: string[];
	/** All of its environment but PATH and PORT. */
	env: Record<string, string>;
}

const readyWithin = 60_000;

/**
 * Starts a server with nothing of this process's own environment. It logs to /dev/null: what a log collector costs is not
 * measured, writing the lines is.
 *
 * @throws Error with what it wrote to standard error, when it isn't ready in time
 */
export async function startServer(lifetime: Lifetime, { args, env }: ServerCommand): Promise<RunningServer> {
	const port = await freePort();
	const begun = performance.now();
	// The channel ends the server also where this process is killed and can't.
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
