import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { environmentOf as environmentOfProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect } from 'vitest';
import { runContacts } from '../program.js';

export const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

interface CommandOutput {
	code: number | string;
	stdout: string;
	stderr: string;
}

interface RunOptions {
	/** What is on standard input; nothing by default. */
	input?: string | Buffer | AsyncIterable<string>;
	environment?: Record<string, string>;
	/** Whether standard input and standard error are a terminal. */
	isTTY?: boolean;
	/** Whether a command that changes keys waits until the change is in force. */
	waits?: boolean;
	/** The width of the terminal that standard output is. Default: it is a pipe. */
	columns?: number;
}

/** The environment of a command: of the test's own only what any process needs. */
export function environmentOf(databaseUrl: string | undefined, more: Record<string, string> = {}): NodeJS.ProcessEnv {
	return environmentOfProcess({ ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }), ...more });
}

/** Runs `contacts` within this process, to its end. `output.process.test.ts` covers what a separate process adds. */
export async function contacts(
	databaseUrl: string | undefined,
	args: string[],
	{ input = '', environment, isTTY = false, waits = false, columns }: RunOptions = {},
): Promise<CommandOutput> {
	const stdout = Object.assign(new PassThrough(), columns === undefined ? {} : { isTTY: true, columns });
	const stderr = Object.assign(new PassThrough(), { isTTY });
	const written = [text(stdout), text(stderr)];
	const isText = typeof input === 'string' || Buffer.isBuffer(input);
	const stdin = Object.assign(Readable.from(isText ? [Buffer.from(input)] : bytesOf(input)), { isTTY });
	const changesKeys = /^(key (create|rotate|revoke)|project (create|enable|disable))$/.test(args.slice(0, 2).join(' '));
	const given = changesKeys && !waits ? [...args.slice(0, 2), '--no-wait', ...args.slice(2)] : args;
	const code = await runContacts(given, environmentOf(databaseUrl, environment), { stdin, stdout, stderr });
	for (const stream of [stdout, stderr]) stream.end();
	const [out = '', error = ''] = await Promise.all(written);
	return { code, stdout: out, stderr: error };
}

async function* bytesOf(texts: AsyncIterable<string>): AsyncGenerator<Buffer> {
	for await (const part of texts) yield Buffer.from(part);
}

/** Expects a failure with one line on standard error and nothing on standard output. */
export function expectOneLine(outcome: CommandOutput, code: 1 | 2, line: string | RegExp): void {
	expect(outcome).toEqual({ code, stdout: '', stderr: expect.stringMatching(/^error: [^\n]+\n$/) });
	if (typeof line === 'string') expect(outcome.stderr).toContain(line);
	else expect(outcome.stderr).toMatch(line);
}

/** A new file with this content. @returns its path */
export async function fileWith(content: string | Buffer, name = 'list.csv'): Promise<string> {
	const path = join(await temporaryFolder(), name);
	await writeFile(path, content);
	return path;
}
