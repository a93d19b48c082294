import { startProcess } from '@contacts/testing/process.js';
import { onTestFinished } from 'vitest';

/** The URL of a built module of this package, for the programs of other processes. */
export function built(module: string): string {
	return new URL(`../../dist/${module}.js`, import.meta.url).href;
}

export interface Program {
	pid: number;
	/** The first line that it printed. */
	firstLine: string;
	/** Kills it, so that it can't clean up. */
	kill(): Promise<void>;
}

/** Runs a module's source in a separate process, and waits for its first line. It is killed at the end of the test. */
export async function runProgram(
	source: string,
	args: string[] = [],
	options: { uid?: number; cwd?: string } = {},
): Promise<Program> {
	const program = startProcess(process.execPath, ['--input-type=module', '--eval', source, ...args], {
		...options,
		env: process.env,
	});
	const kill = () => program.stop('SIGKILL');
	onTestFinished(kill);
	const [, firstLine = ''] = await program.waitForLine(/^(.*)\n/);
	return { pid: program.pid, firstLine, kill };
}
