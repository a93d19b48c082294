import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
	mkdirSync,
	mkdtempSync,
	readdirSync,
	readFileSync,
	readlinkSync,
	rmSync,
	statSync,
	writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from '@contacts/local-postgres/server.js';
import { vi } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

export interface RunningProcess {
	child: ChildProcess;
	/** All that it wrote to standard output and standard error. */
	output(): string;
	/** Ends it with a signal and waits until it is gone. */
	stop(signal?: NodeJS.Signals): Promise<void>;
}

/** @param command a program that must be on the PATH; it is said which package has it where it is missing */
export async function run(
	command: string,
	args: string[],
	env: NodeJS.ProcessEnv = process.env,
): Promise<RunningProcess> {
	const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
	// Whatever becomes of the test, nothing is left running.
	const kill = () => void child.kill('SIGKILL');
	process.once('exit', kill);
	child.once('exit', () => process.removeListener('exit', kill));
	let output = '';
	for (const stream of [child.stdout, child.stderr]) {
		stream.setEncoding('utf8').on('data', (text: string) => {
			output += text;
		});
	}
	const exited = once(child, 'exit').catch(() => undefined);
	const [error] = (await Promise.race([once(child, 'error'), once(child, 'spawn').then(() => [])])) as [Error?];
	if (error)
		throw new Error(
			`${command} can't be started; these tests need it (Debian: redis-server, nginx-light, pgbouncer). ${error.message}`,
		);
	return {
		child,
		output: () => output,
		async stop(signal = 'SIGTERM') {
			if (child.exitCode === null && child.signalCode === null) child.kill(signal);
			await exited;
		},
	};
}

export interface RunningService extends RunningProcess {
	url: string;
}

/** A built service as a process of its own, on a free port. */
export async function startService(
	name: 'personal-contacts' | 'company-contacts',
	env: Record<string, string>,
): Promise<RunningService> {
	const service = await run(process.execPath, [join(root, 'services', name, 'dist/main.js')], {
		...env,
		PORT: env.PORT ?? '0',
	});
	const address = /Server listening at (http:[^"]+)"/;
	await vi.waitUntil(() => address.test(service.output()) || service.child.exitCode !== null, { timeout: 15_000 });
	if (!address.test(service.output())) throw new Error(`${name} did not start: ${service.output()}`);
	return { ...service, url: address.exec(service.output())?.[1] ?? '' };
}

/** A Redis that keeps nothing, on a port of 127.0.0.1. */
export async function startRedis(port: number): Promise<RunningProcess> {
	const redis = await run('redis-server', [
		'--port',
		String(port),
		'--bind',
		'127.0.0.1',
		'--save',
		'',
		'--appendonly',
		'no',
		'--daemonize',
		'no',
	]);
	await vi.waitUntil(() => accepts(port), { timeout: 10_000 });
	return redis;
}

export interface RunningNginx extends RunningProcess {
	url: string;
	/** Its error log at the lowest level that the configuration lets through. */
	errorLog(): string;
	accessLog(): string;
	/** Bytes of its temporary files. */
	temporaryBytes(): number;
	/** Resident memory of its workers, in MiB. */
	memory(): number;
}

/** An nginx with this inside of its `http` block. `PORT`, `FOLDER`, `ACCESS_LOG` and `ERROR_LOG` stand for what they say. */
export async function startNginx(http: string): Promise<RunningNginx> {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-nginx-'));
	const port = await freePort();
	const [accessLog, errorLog] = [join(folder, 'access.log'), join(folder, 'error.log')];
	mkdirSync(join(folder, 'html'));
	writeFileSync(join(folder, 'html', 'index.html'), 'ok');
	const filled = http
		.replaceAll('ACCESS_LOG', accessLog)
		.replaceAll('ERROR_LOG', errorLog)
		.replaceAll('FOLDER', folder)
		.replaceAll('PORT', String(port));
	const config = `${process.getuid?.() === 0 ? 'user root;' : ''}
		daemon off; worker_processes 1; pid ${folder}/nginx.pid; error_log ${errorLog} notice;
		events { worker_connections 2048; }
		http { ${filled} }`;
	writeFileSync(join(folder, 'nginx.conf'), config);
	writeFileSync(errorLog, '');
	const nginx = await run('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', errorLog], {
		...process.env,
		PATH: `${process.env.PATH}:/usr/sbin`,
	});
	await vi.waitUntil(() => accepts(port), { timeout: 10_000 });
	return {
		...nginx,
		url: `http://127.0.0.1:${port}`,
		errorLog: () => readFileSync(errorLog, 'utf8'),
		accessLog: () => readFileSync(accessLog, 'utf8'),
		temporaryBytes: () =>
			childrenOf(nginx.child.pid).reduce((sum, pid) => sum + openBytes(pid, join(folder, 'proxy')), 0),
		memory: () => childrenOf(nginx.child.pid).reduce((sum, pid) => sum + memoryOf(Number(pid)), 0),
		async stop(signal = 'SIGQUIT') {
			await nginx.stop(signal);
			rmSync(folder, { recursive: true, force: true });
		},
	};
}

/** Processes that this one has started. */
function childrenOf(pid: number | undefined): string[] {
	return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
}

/** Bytes of the files below this folder that a process has open, those too that have no name any more. */
function openBytes(pid: string, folder: string): number {
	let sum = 0;
	for (const descriptor of readdirSync(`/proc/${pid}/fd`)) {
		const path = `/proc/${pid}/fd/${descriptor}`;
		try {
			if (readlinkSync(path).startsWith(folder)) sum += statSync(path).size;
		} catch {
			// Closed since it was listed.
		}
	}
	return sum;
}

/** Resident memory of a process in MiB. */
export function memoryOf(pid: number | undefined): number {
	const kilobytes = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
	return Number(kilobytes) / 1024;
}

function accepts(port: number): Promise<boolean> {
	return new Promise((resolve) => {
		const socket = connect({ port, host: '127.0.0.1' });
		socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
		socket.on('connect', () => socket.destroy());
	});
}
