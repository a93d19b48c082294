import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { send } from '@contacts/testing/load.js';
import { startProcess } from '@contacts/testing/process.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { onServerCore } from './cores.js';
import type { BenchDatabase } from './database.js';
import type { ServiceName } from './scenarios.js';

/** What is measured: the services of one checkout, or baseline servers in their place. */
export interface Side {
	database: BenchDatabase;
	/** The program in the place of a service, and its variables. `ownPort` is where our service listens. */
	program(name: ServiceName, ownPort: number): { file: string; env: Record<string, string> };
}

export interface RunningServer {
	url: string;
	pid: number;
	/** Milliseconds from the start of the process until /health/ready responded with 200. */
	startUpMs: number;
	stderr(): string;
	stop(): Promise<void>;
}

export type Servers = Record<ServiceName, RunningServer>;

/** The built services, as they run in production. The rate limit is on, but too high to reach. */
export function checkoutSide(checkout: string, database: BenchDatabase): Side {
	const settings = { LOG_LEVEL: 'info' };
	const limits = { RATE_LIMIT_PER_SECOND: '1000000', RATE_LIMIT_BURST: '1000000000' };
	const environments = {
		'company-contacts': { ...settings, ...limits, DATABASE_URL: database.companyUrl },
		'personal-contacts': { ...settings, DATABASE_URL: database.personalUrl },
	};
	return {
		database,
		program: (name) => ({ file: join(checkout, 'services', name, 'dist/main.js'), env: environments[name] }),
	};
}

/**
 * The simplest servers with the same responses. They share the database of our services.
 *
 * @param reader the one that sends what company-contacts sends
 */
export function baselineSide({ database }: Side, reader: 'same-bytes' | 'fastify-alone'): Side {
	const file = (name: string) => fileURLToPath(new URL(`./baselines/${name}.js`, import.meta.url));
	return {
		database,
		program: (name, ownPort) =>
			name === 'company-contacts'
				? { file: file(reader), env: { SERVICE_URL: `http://127.0.0.1:${ownPort}` } }
				: { file: file('single-statement'), env: { DATABASE_URL: database.personalUrl } },
	};
}

/**
 * Starts a server in a process of its own. It ends when this process is killed.
 *
 * @throws Error with its output when it isn't ready within a minute
 */
export async function startServer(
	cleanup: (() => unknown)[],
	port: number,
	{ file, env }: { file: string; env: Record<string, string> },
): Promise<RunningServer> {
	const url = `http://127.0.0.1:${port}`;
	const startedAt = performance.now();
	const [command = '', ...args] = onServerCore([process.execPath, file]);
	const server = startProcess(command, args, {
		env: { PATH: process.env.PATH, NODE_ENV: 'production', HOST: '127.0.0.1', PORT: String(port), ...env },
		ipc: true,
		// It logs to /dev/null, so that only the server pays for its log.
		stdout: 'ignore',
	});
	cleanup.push(() => server.stop());
	const isReady = async () => (await send(url, { method: 'GET', path: '/health/ready' })).result === 200;
	const message = () => `${file} did not become ready. ${server.stderr().trim()}`;
	await waitUntil(async () => server.hasExited || (await isReady()), { timeoutMs: 60_000, intervalMs: 2, message });
	if (server.hasExited) throw new Error(message());
	return { url, pid: server.pid, startUpMs: performance.now() - startedAt, stderr: server.stderr, stop: server.stop };
}
