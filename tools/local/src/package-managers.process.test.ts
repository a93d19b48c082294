import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { freePorts, toolOf } from '@contacts/testing/launcher.js';
import { isAlive } from '@contacts/testing/proc.js';
import { environmentOf, startProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';

/** A package manager as the system sees it: Node.js under the name npx, which starts another process and waits. */
const program = `
	const { spawn } = require('node:child_process');
	const child = spawn(process.env.NODE, [process.env.MAIN], { stdio: 'inherit' });
	console.log('launcher', child.pid);
	child.on('exit', (code) => process.exit(code ?? 1));`;

test('the launcher stops everything in order when npx is killed', async ({ skip }) => {
	if (process.platform !== 'linux') return skip('The programs above a process are known on Linux only.');
	const npx = join(await temporaryFolder(), 'npx');
	symlinkSync(process.execPath, npx);
	const ports = await freePorts();
	const manager = startProcess(npx, ['-e', program], {
		env: environmentOf({
			NODE: process.execPath,
			MAIN: toolOf('local'),
			DATABASE_URL: database.url,
			COMPANY_CONTACTS_PORT: String(ports.company),
			PERSONAL_CONTACTS_PORT: String(ports.personal),
		}),
	});
	const launcher = Number((await manager.waitForLine(/launcher (\d+)/))[1]);
	onTestFinished(() => {
		if (isAlive(launcher)) process.kill(launcher, 'SIGKILL');
	});
	await manager.waitForLine(/\nReady\./);
	manager.kill('SIGKILL');
	// Every process with this standard output has ended.
	expect(await manager.exit).toBe('SIGKILL');
	expect(manager.stdout()).toMatch(/Stopping \.\.\.\nStopped\.\n$/);
	await expect.poll(() => isAlive(launcher)).toBe(false);
});
