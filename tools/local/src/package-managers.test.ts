import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { freePorts, toolOf } from '@contacts/testing/launcher.js';
import { isAlive } from '@contacts/testing/proc.js';
import { environmentOf } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';

/** A package manager as the system sees it: Node.js under the name npx, which starts another process and waits. */
const wrapper = `
	const { spawn } = require('node:child_process');
	const child = spawn(process.env.NODE, [process.env.MAIN], { stdio: 'inherit' });
	console.log('pids', process.pid, child.pid);
	child.on('exit', (code) => process.exit(code ?? 1));`;

interface Wrapped {
	/** The processes that the test started. */
	outer: ChildProcess;
	npx: number;
	launcher: number;
	/** Waits until every process with this standard output has ended. */
	closed: Promise<unknown>;
	output(): string;
}

/** Starts the launcher through npx, in a shell that may never wait for npx. */
async function startWrapped(shellCommand: string): Promise<Wrapped> {
	const folder = await temporaryFolder();
	const npx = join(folder, 'npx');
	symlinkSync(process.execPath, npx);
	const ports = await freePorts();
	const outer = spawn('sh', ['-c', shellCommand, npx, wrapper], {
		env: environmentOf({
			NODE: process.execPath,
			MAIN: toolOf('local'),
			DATABASE_URL: database.url,
			COMPANY_CONTACTS_PORT: String(ports.company),
			PERSONAL_CONTACTS_PORT: String(ports.personal),
		}),
		stdio: ['ignore', 'pipe', 'inherit'],
	});
	const lines: string[] = [];
	const reader = createInterface(outer.stdout).on('line', (line) => lines.push(line));
	const closed = once(reader, 'close');
	while (!lines.some((line) => line.startsWith('Ready.'))) await once(reader, 'line');
	const pids = lines.find((line) => line.startsWith('pids'))?.split(' ') ?? [];
	const wrapped = { outer, npx: Number(pids[1]), launcher: Number(pids[2]), closed, output: () => lines.join('\n') };
	onTestFinished(() => {
		outer.kill('SIGKILL');
		for (const pid of [wrapped.npx, wrapped.launcher]) if (isAlive(pid)) process.kill(pid, 'SIGKILL');
	});
	return wrapped;
}

test('the launcher stops everything in order when npx is killed', async ({ skip }) => {
	if (process.platform !== 'linux') return skip('The programs above a process are known on Linux only.');
	// The shell replaces itself with a program that does not know its child: npx stays a zombie.
	const wrapped = await startWrapped('"$0" -e "$1" & exec sleep 110 >&-');
	process.kill(wrapped.npx, 'SIGKILL');
	await wrapped.closed;
	expect(wrapped.output()).toMatch(/Stopping \.\.\.\nStopped\.$/);
	await expect.poll(() => isAlive(wrapped.launcher)).toBe(false);
});
