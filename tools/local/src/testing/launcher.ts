import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { accepts, isAlive } from '@contacts/local-postgres/testing/processes.js';
import { vi } from 'vitest';

export const toolOf = (name: string) => fileURLToPath(new URL(`../../../${name}/dist/main.js`, import.meta.url));

export interface Ports {
	company: number;
	personal: number;
}

export interface Launcher {
	process: ChildProcess;
	dataFolder: string;
	ports: Ports;
	stdout(): string;
	stderr(): string;
	/** Waits until both services are ready. */
	ready(): Promise<void>;
	/** Sends a signal, and waits for the end of the launcher and of the services. */
	end(signal: NodeJS.Signals): Promise<number | null>;
	/** Waits for the end of the launcher, and of the services, which hold its standard error. */
	ended: Promise<number | null>;
}

/** Two free ports that no outgoing connection takes meanwhile: below the range that systems give those from. */
export async function freePorts(): Promise<Ports> {
	const ports: number[] = [];
	while (ports.length < 2) {
		const port = randomInt(15_000, 32_000);
		const server = createServer().listen(port, '127.0.0.1');
		const free = await once(server, 'listening').then(
			() => true,
			() => false,
		);
		if (!free) continue;
		server.close();
		await once(server, 'close');
		if (!ports.includes(port)) ports.push(port);
	}
	const [company = 0, personal = 0] = ports;
	return { company, personal };
}

/** The environment of a process: nothing of the test's own but what any process needs. */
export function environmentOf(more: Record<string, string>): NodeJS.ProcessEnv {
	const { PATH, HOME, TMPDIR } = process.env;
	return { PATH, HOME, TMPDIR, ...more };
}

/** Starts `start` as a process of its own, on free ports. */
export async function launch(dataFolder: string, more: Record<string, string> = {}): Promise<Launcher> {
	const ports = await freePorts();
	const child = spawn(process.execPath, [toolOf('local')], {
		env: environmentOf({
			LOCAL_DATA_DIR: dataFolder,
			COMPANY_CONTACTS_PORT: String(ports.company),
			PERSONAL_CONTACTS_PORT: String(ports.personal),
			...more,
		}),
		stdio: ['ignore', 'pipe', 'pipe'],
	});
	const output = { stdout: '', stderr: '' };
	for (const name of ['stdout', 'stderr'] as const) {
		child[name].setEncoding('utf8').on('data', (text: string) => {
			output[name] += text;
		});
	}
	const ended = once(child, 'close').then(([code]) => code as number | null);
	return {
		process: child,
		dataFolder,
		ports,
		stdout: () => output.stdout,
		stderr: () => output.stderr,
		async ready() {
			while (!output.stdout.includes('\nReady.')) {
				const more = await Promise.race([once(child.stdout, 'data'), ended.then(() => 'ended')]);
				if (more === 'ended') throw new Error(`It ended before it was ready:\n${output.stdout}${output.stderr}`);
			}
		},
		async end(signal) {
			child.kill(signal);
			return ended;
		},
		ended,
	};
}

/** Ends it for the clean-up of a test, in whatever state that has left it. */
export async function dispose(launcher: Launcher | undefined): Promise<void> {
	if (launcher === undefined) return;
	const timer = setTimeout(() => launcher.process.kill('SIGKILL'), 20_000);
	await launcher.end('SIGTERM');
	clearTimeout(timer);
	await vi.waitUntil(() => !existsSync(pidFileOf(launcher)), { timeout: 15_000 });
}

const pidFileOf = ({ dataFolder }: Launcher) => join(dataFolder, 'postgres', 'postmaster.pid');

export interface Parts {
	/** The services by name, and the database's server. */
	pids: Record<string, number>;
	ports: number[];
}

/** What runs besides the launcher: the services tell their IDs in their logs, the database in its file. */
export function partsOf(launcher: Launcher): Parts {
	const pids: Record<string, number> = {};
	for (const line of launcher.stderr().split('\n')) {
		if (!line.startsWith('{')) continue;
		const { name, pid } = JSON.parse(line) as { name: string; pid: number };
		pids[name] = pid;
	}
	const ports = Object.values(launcher.ports);
	if (existsSync(pidFileOf(launcher))) {
		const [pid, , , port] = readFileSync(pidFileOf(launcher), 'utf8').split('\n');
		pids.database = Number(pid);
		ports.push(Number(port));
	}
	return { pids, ports };
}

/** Those of them that are still there. */
export async function remainsOf({ pids, ports }: Parts): Promise<string[]> {
	const processes = Object.entries(pids).flatMap(([name, pid]) => (isAlive(pid) ? [name] : []));
	const open = await Promise.all(ports.map(async (port) => ((await accepts(port)) ? [`port ${port}`] : [])));
	return [...processes, ...open.flat()];
}

/** Runs `contacts` on a local database, and gives what it printed. */
export async function contacts(dataFolder: string, ...args: string[]) {
	const child = spawn(process.execPath, [toolOf('contacts'), ...args], {
		env: environmentOf({ LOCAL_DATA_DIR: dataFolder }),
		stdio: ['ignore', 'pipe', 'pipe'],
	});
	let [stdout, stderr] = ['', ''];
	child.stdout.setEncoding('utf8').on('data', (text) => {
		stdout += text;
	});
	child.stderr.setEncoding('utf8').on('data', (text) => {
		stderr += text;
	});
	const [code] = await once(child, 'close');
	return { code, stdout, stderr };
}
