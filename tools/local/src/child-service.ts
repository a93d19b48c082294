import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** Why the start failed, in one line for the person who started it. */
export class StartError extends Error {}

export interface ChildService {
	name: string;
	url: string;
	/** Resolves when it ends unexpectedly. */
	ended: Promise<void>;
	stop(): Promise<void>;
}

/**
 * Starts a service in a separate process and waits until it is ready. It ends when this process ends, for whatever reason.
 * Its log goes to standard error.
 *
 * @param program the module to run, default: the package's main one
 * @throws StartError with the output of the service
 */
export async function startService(
	name: string,
	port: number,
	environment: NodeJS.ProcessEnv,
	program = `@contacts/${name}/main.js`,
): Promise<ChildService> {
	const main = fileURLToPath(import.meta.resolve(program));
	const child = fork(main, [], {
		env: { ...environment, HOST: '127.0.0.1', PORT: String(port) },
		// A separate process group: Ctrl-C reaches only the launcher, which stops everything in order.
		detached: true,
		stdio: ['ignore', 2, 2, 'ipc'],
		execArgv: [],
	});
	const ended = once(child, 'exit').then(() => undefined);
	const url = `http://127.0.0.1:${port}`;
	const stop = () => stopChild(child, ended);
	try {
		await waitUntilReady(url, child);
	} catch (error) {
		await stop();
		throw new StartError(
			`${name} did not start${error instanceof Error ? ` (${error.message})` : ''}: see its lines above.`,
		);
	}
	return { name, url, ended, stop };
}

async function waitUntilReady(url: string, child: ChildProcess): Promise<void> {
	for (let tries = 0; tries < 600; tries++) {
		if (child.exitCode !== null || child.signalCode !== null)
			throw new Error(`exit ${child.exitCode ?? child.signalCode}`);
		try {
			const response = await fetch(`${url}/health/ready`, { signal: AbortSignal.timeout(2000) });
			if (response.ok) return;
		} catch {
			// Not listening yet.
		}
		await delay(50);
	}
	throw new Error('not ready within 30 seconds');
}

async function stopChild(child: ChildProcess, ended: Promise<void>): Promise<void> {
	if (child.exitCode !== null || child.signalCode !== null) return;
	child.kill('SIGTERM');
	await ended;
}
