import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { ConfigError } from '@contacts/common/process/config.js';

/** A service is ready within a second. This is for a machine that is busy with much else. */
const readyTimeoutMs = 120_000;

interface ChildService {
	/** Resolves when it has ended without `stop`. */
	ended: Promise<void>;
	/**
	 * Waits until it is ready.
	 *
	 * @throws ConfigError when it ends before that, or after two minutes
	 */
	ready(): Promise<void>;
	stop(): Promise<void>;
}

/** Starts a service in a separate process. It ends when this process ends, for whatever reason. Its log goes to standard error. */
export function spawnService(name: ServiceName, port: number, databaseUrl: string): ChildService {
	const child = fork(fileURLToPath(import.meta.resolve(`@contacts/${name}/main.js`)), [], {
		env: { ...process.env, DATABASE_URL: databaseUrl, HOST: '127.0.0.1', PORT: String(port) },
		// A separate process group: Ctrl-C reaches only the launcher, which stops everything in order.
		detached: true,
		stdio: ['ignore', 2, 2, 'ipc'],
		execArgv: [],
	});
	const exit = once(child, 'exit');
	let stopped = false;
	const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
	return {
		ended: new Promise((resolve) => child.once('exit', () => stopped || resolve())),
		async ready() {
			const until = performance.now() + readyTimeoutMs;
			while (performance.now() < until && !hasEnded()) {
				const probe = fetch(`http://127.0.0.1:${port}/health/ready`, { signal: AbortSignal.timeout(2000) });
				if (await probe.then(({ ok }) => ok).catch(() => false)) return;
				await delay(50);
			}
			const reason = hasEnded() ? `exit ${child.exitCode ?? child.signalCode}` : 'not ready within two minutes';
			throw new ConfigError([`${name} did not start (${reason}): see its lines above.`]);
		},
		async stop() {
			if (hasEnded()) return;
			stopped = true;
			child.kill('SIGTERM');
			await exit;
		},
	};
}
