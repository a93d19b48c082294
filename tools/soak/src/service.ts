import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { freePort } from '@contacts/local-postgres/server.js';

export interface Service {
	name: ServiceName;
	url: string;
	pid: number | undefined;
	/** Resolves when it has ended, with how it ended and its last output. */
	crashed: Promise<string>;
	/** @returns its exit code */
	stop(): Promise<number | null>;
}

/** Starts a built service in a separate process, on a free port, and waits until it is ready. */
export async function startService(name: ServiceName, environment: Record<string, string>): Promise<Service> {
	const port = await freePort();
	const child = fork(fileURLToPath(import.meta.resolve(`@contacts/${name}/main.js`)), [], {
		env: { ...environment, HOST: '127.0.0.1', PORT: String(port) },
		// A separate process group: Ctrl-C reaches only this program, which stops everything in order.
		detached: true,
		stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
		execArgv: [],
	});
	let said = '';
	for (const stream of [child.stdout, child.stderr]) {
		stream?.setEncoding('utf8').on('data', (text: string) => {
			said = (said + text).slice(-4096);
		});
	}
	const exited = once(child, 'exit');
	const service = {
		name,
		url: `http://127.0.0.1:${port}`,
		pid: child.pid,
		crashed: exited.then(([code, signal]) => `${name} has ended (${signal ?? `exit ${code}`}). It said last:\n${said}`),
		async stop() {
			if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
			await exited;
			return child.exitCode;
		},
	};
	await waitUntilReady(service, child);
	return service;
}

async function waitUntilReady(service: Service, child: ChildProcess): Promise<void> {
	for (let tries = 0; tries < 600; tries++) {
		if (child.exitCode !== null || child.signalCode !== null) throw new Error(await service.crashed);
		const answer = await fetch(`${service.url}/health/ready`).catch(() => undefined);
		await answer?.arrayBuffer();
		if (answer?.ok) return;
		await delay(50);
	}
	await service.stop();
	throw new Error(`${service.name} was not ready within 30 seconds.`);
}
