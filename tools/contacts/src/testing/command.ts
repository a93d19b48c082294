import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished } from 'vitest';
import { UsageError } from '../failure.js';
import { createProgram } from '../program.js';

export const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

export interface Outcome {
	code: number | null;
	stdout: string;
	stderr: string;
}

export interface RunOptions {
	/** What standard input gives; nothing by default. */
	input?: string | Buffer;
	environment?: Record<string, string>;
}

/** The environment of a command: nothing of the test's own but what any process needs. */
export function environmentOf(databaseUrl: string | undefined, more: Record<string, string> = {}): NodeJS.ProcessEnv {
	const { PATH, HOME, TMPDIR } = process.env;
	return { PATH, HOME, TMPDIR, ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }), ...more };
}

/** Runs `contacts` as a process of its own, to its end. */
export async function contacts(
	databaseUrl: string | undefined,
	args: string[],
	{ input = '', environment }: RunOptions = {},
): Promise<Outcome> {
	const child = spawn(process.execPath, [main, ...args], {
		env: environmentOf(databaseUrl, environment),
		timeout: 60_000,
		killSignal: 'SIGKILL',
	});
	// A command that reads no input may be gone before it is all written.
	child.stdin.on('error', () => undefined).end(input);
	const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
	return { code, stdout, stderr };
}

/** It failed with one line on standard error and nothing on standard output. */
export function expectOneLine(outcome: Outcome, code: 1 | 2, line: string | RegExp): void {
	expect(outcome).toEqual({ code, stdout: '', stderr: expect.stringMatching(/^error: [^\n]+\n$/) });
	if (typeof line === 'string') expect(outcome.stderr).toContain(line);
	else expect(outcome.stderr).toMatch(line);
}

/**
 * The same call within this process, for what needs no process of its own to be shown: it is wrong usage, which ends with
 * exit 2 (see contacts.test.ts).
 */
export async function expectWrongUsage(databaseUrl: string, args: string[], line: string): Promise<void> {
	const program = createProgram(environmentOf(databaseUrl)).configureOutput({ writeErr: () => undefined });
	const thrown = await program.parseAsync(['node', 'contacts', ...args]).then(
		() => undefined,
		(error: unknown) => error,
	);
	expect(thrown).toBeInstanceOf(UsageError);
	expect((thrown as UsageError).message).toContain(line);
}

/** A folder for the length of a test. */
export async function temporaryFolder(): Promise<string> {
	const folder = await mkdtemp(join(tmpdir(), 'contacts-command-'));
	onTestFinished(() => rm(folder, { recursive: true, force: true }));
	return folder;
}
