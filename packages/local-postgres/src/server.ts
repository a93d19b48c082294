import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { readlinkSync, realpathSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { LocalPostgresError } from './binaries.js';
import type { SupervisorOrder, SupervisorReport } from './supervisor.js';

/** A running PostgreSQL server on 127.0.0.1. */
export interface LocalPostgres {
	/** Connection URL of the superuser, for the given database. */
	url(database: string): string;
	port: number;
	/** Resolves when the server has ended without `stop()`. */
	ended: Promise<void>;
	/** Shuts the server down cleanly. All committed data is on disk afterwards. */
	stop(): Promise<void>;
}

export interface LocalPostgresOptions {
	/** Absolute path of the data directory. If it is missing, it is created and initialized with initdb. */
	dataDirectory: string;
	/** The superuser's password. It is set when the data directory is created, and must stay the same afterwards. */
	password: string;
	/** Server settings, as in postgresql.conf. */
	settings?: Record<string, string>;
	/** Absolute path of the server's log file. Without it, the log is discarded. */
	logFile?: string;
}

/**
 * Starts the embedded PostgreSQL on a free port of 127.0.0.1. It ends with `stop()`, and by itself when this process ends
 * for any reason.
 *
 * @throws LocalPostgresError with one line for people: other major version, folder in use, no binaries for this platform.
 */
export async function startLocalPostgres(options: LocalPostgresOptions): Promise<LocalPostgres> {
	await endLeftover(options.dataDirectory);
	for (let attempt = 1; ; attempt++) {
		// The port was free, but is not reserved until the server binds it. Another process may be faster.
		const port = await freePort();
		const supervisor = fork(fileURLToPath(new URL('./supervisor.js', import.meta.url)), [], {
			detached: true,
			stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
			execArgv: [],
		});
		const order: SupervisorOrder = { settings: {}, ...options, port };
		supervisor.send(order);
		const report = await Promise.race([
			once(supervisor, 'message').then(([message]) => message as SupervisorReport),
			once(supervisor, 'exit').then(
				(): SupervisorReport => ({ ready: false, message: 'it ended at once', portTaken: false }),
			),
		]);
		if (report.ready) return running(supervisor, port, options.password);
		if (!report.portTaken || attempt === 5) throw new LocalPostgresError(report.message);
	}
}

function running(supervisor: ChildProcess, port: number, password: string): LocalPostgres {
	const ended = once(supervisor, 'exit').then(() => undefined);
	return {
		port,
		ended,
		url: (database) => `postgres://postgres:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`,
		async stop() {
			if (supervisor.connected) supervisor.disconnect();
			await ended;
		},
	};
}

/**
 * Ends an orphaned server on this data directory, and waits for one that is shutting down. This happens only if the
 * supervisor itself or its parent was killed. The ID in `postmaster.pid` may now belong to any process, which must not be
 * harmed. PostgreSQL would treat that process as the old server and refuse to start, so the file is removed.
 */
async function endLeftover(dataDirectory: string): Promise<void> {
	const file = join(dataDirectory, 'postmaster.pid');
	let asked = false;
	for (let tries = 0; tries < 100; tries++) {
		const content = await readFile(file, 'utf8').catch(() => undefined);
		if (content === undefined) return;
		const pid = Number(/^[1-9][0-9]*\n/.exec(content)?.[0]);
		if (pid > 0 && !signal(pid, 0)) return;
		const isServer = pid > 0 ? usesDirectory(pid, dataDirectory) : undefined;
		if (isServer === false) return rmSync(file, { force: true });
		if (isServer && !asked) asked = signal(pid, 'SIGINT');
		await delay(100);
	}
}

/** @returns whether the process exists and accepts signals of this process */
function signal(pid: number, name: NodeJS.Signals | 0): boolean {
	try {
		return process.kill(pid, name);
	} catch {
		return false;
	}
}

/**
 * Whether a process is the PostgreSQL server of this data directory, which is its working directory. Undefined if the
 * system does not report it, for example of a process that is ending. The port is no proof: another server may use it now.
 */
function usesDirectory(pid: number, dataDirectory: string): boolean | undefined {
	try {
		if (process.platform === 'linux') return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(dataDirectory);
		return execFileSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' }).includes(
			`-D ${dataDirectory} `,
		);
	} catch {
		return undefined;
	}
}

/** A TCP port of 127.0.0.1 that is free at the moment. */
export async function freePort(): Promise<number> {
	const server = createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	const address = server.address();
	server.close();
	await once(server, 'close');
	if (address === null || typeof address === 'string') throw new Error('no TCP address');
	return address.port;
}
