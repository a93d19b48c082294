import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';

/** A folder for the length of a test, with these rights. */
export async function temporaryFolder(mode = 0o700): Promise<string> {
	const folder = await mkdtemp(join(tmpdir(), 'contacts-local-'));
	onTestFinished(() => rm(folder, { recursive: true, force: true }));
	await chmod(folder, mode);
	return folder;
}

/** The URL of a built module of this package, for the programs of other processes. */
export function built(module: string): string {
	return new URL(`../../dist/${module}.js`, import.meta.url).href;
}

export interface Program {
	process: ChildProcess;
	/** The first line that it printed. */
	firstLine: string;
	/** Ends it without giving it a chance to notice. */
	kill(): Promise<void>;
}

/** Runs a module's source in a process of its own, until it has printed a line; it is killed at the end of the test. */
export async function runProgram(
	source: string,
	args: string[] = [],
	options: { uid?: number; cwd?: string } = {},
): Promise<Program> {
	const child = spawn(process.execPath, ['--input-type=module', '--eval', source, ...args], {
		...options,
		stdio: ['ignore', 'pipe', 'inherit'],
	});
	const exited = once(child, 'exit');
	const kill = async () => {
		child.kill('SIGKILL');
		await exited;
	};
	onTestFinished(kill);
	const line = once(createInterface(child.stdout), 'line').then(([text]) => String(text));
	const ended = exited.then(([code, signal]) => {
		throw new Error(`it ended without a line (${code ?? signal})`);
	});
	ended.catch(() => undefined);
	return { process: child, firstLine: await Promise.race([line, ended]), kill };
}

/** Whether something listens on this port of 127.0.0.1. */
export function accepts(port: number): Promise<boolean> {
	return new Promise((resolve) => {
		const socket = connect({ port, host: '127.0.0.1' });
		socket.on('connect', () => socket.destroy()).on('error', () => resolve(false));
		socket.on('close', (failed) => resolve(!failed));
	});
}

/** Whether there is such a process. One that has ended counts as gone, whether somebody has asked how it ended or not. */
export function isAlive(pid: number): boolean {
	if (process.platform === 'linux') return !['Z', 'X', undefined].includes(statusOf(pid)?.state);
	try {
		process.kill(pid, 0);
		return true;
	} catch {
		return false;
	}
}

/** The ID of a process's parent. */
export function parentOf(pid: number): number {
	if (process.platform === 'linux') return statusOf(pid)?.parent ?? Number.NaN;
	return Number(execFileSync('ps', ['-o', 'ppid=', '-p', String(pid)]));
}

function statusOf(pid: number): { state: string; parent: number } | undefined {
	try {
		// After the name, which may hold anything, come the state and the parent.
		const [, state = '', parent] = /.*\) (\S) (\d+) /s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
		return { state, parent: Number(parent) };
	} catch {
		return undefined;
	}
}
