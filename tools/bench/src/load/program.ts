import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { startProcess } from '@contacts/testing/process.js';
import type { Lifetime } from '../lifetime.js';

/** The path of a program, on the PATH or in one of these folders. Undefined: it was not found. */
export function findProgram(name: string, folders: string[] = []): string | undefined {
	const paths = [...(process.env.PATH ?? '').split(delimiter), ...folders].map((folder) => join(folder, name));
	return paths.find((path) => {
		try {
			accessSync(path, constants.X_OK);
			return true;
		} catch {
			return false;
		}
	});
}

/** A load generator must end within its time and this one, whatever the server does. */
const graceMs = 30_000;

/**
 * Runs a load generator to its end.
 *
 * @returns its process ID, and the promise of its output
 * @throws Error with its last lines of output, when it fails or does not end in time
 */
export function runProgram(
	lifetime: Lifetime,
	command: string,
	args: string[],
	seconds: number,
	env?: NodeJS.ProcessEnv,
): { pid: number; output: Promise<string> } {
	const child = startProcess(command, args, env === undefined ? {} : { env });
	const end = lifetime.own(() => child.stop('SIGKILL'));
	const timer = setTimeout(() => child.kill('SIGKILL'), seconds * 1000 + graceMs);
	const output = child.exit.then(async (exit) => {
		clearTimeout(timer);
		await end();
		const tail = child.output().trim().slice(-500);
		if (exit === 'SIGKILL') throw new Error(`${command} did not end in time. ${tail}`);
		if (exit !== 0) throw new Error(`${command} failed (${exit}): ${tail}`);
		return child.output();
	});
	return { pid: child.pid, output };
}
