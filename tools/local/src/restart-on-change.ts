import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, watch } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '@contacts/common/process/config.js';
import type { Services } from './launcher.js';
import { root } from './settings.js';

const sources = ['packages/common/src', 'services/company-contacts/src', 'services/personal-contacts/src'];

/** Builds whenever a source has changed. Stops the services and starts them again after each build without errors. */
export async function restartOnChange(services: Services, start: () => Services): Promise<never> {
	let current = services;
	sayIfEnded(current);
	for (let change = nextChange(); ; ) {
		await change;
		// Watches while it builds, so that no later change is missed.
		change = nextChange();
		process.stdout.write('Building ...\n');
		if (!(await build())) continue;
		await current.stop();
		current = start();
		sayIfEnded(current);
		try {
			await current.ready();
			process.stdout.write('Ready again.\n');
		} catch (error) {
			if (!(error instanceof ConfigError)) throw error;
			process.stderr.write(`${error.lines.join('\n')}\n`);
		}
	}
}

function sayIfEnded({ ended }: Services): void {
	void ended.then((name) => process.stderr.write(`${name} has ended by itself: the next build starts it again.\n`));
}

/** Watches each folder by itself: Node.js 20 sees only the first change of a file if it watches recursively. */
function nextChange(): Promise<void> {
	return new Promise((resolve) => {
		const watchers = sources.flatMap(foldersOf).map((folder) =>
			watch(folder, (_, file) => {
				if (!/(?<!\.test)\.ts$/.test(file ?? '')) return;
				for (const watcher of watchers) watcher.close();
				resolve();
			}),
		);
	});
}

function foldersOf(source: string): string[] {
	const folder = join(root, source);
	const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
	return [folder, ...entries.flatMap((entry) => (entry.isDirectory() ? [join(entry.parentPath, entry.name)] : []))];
}

/** @returns whether there were no errors, which it prints */
async function build(): Promise<boolean> {
	const script = join(root, 'tools', 'build.mjs');
	const child = spawn(process.execPath, [script, join('tools', 'local')], { stdio: ['ignore', 'inherit', 'inherit'] });
	const [code] = await once(child, 'exit');
	return code === 0;
}
