import { readFileSync } from 'node:fs';

const intervalMs = 500;

/**
 * Calls back when one of the package managers above this process has ended. A SIGTERM to npx ends only npx: pnpm and this
 * process would keep running. Works on Linux only.
 */
export function watchPackageManagers(onEnded: () => void): void {
	const before = packageManagers();
	const timer = setInterval(() => {
		if (packageManagers() === before) return;
		clearInterval(timer);
		onEnded();
	}, intervalMs);
	timer.unref();
}

/** The IDs of the parent processes up to the topmost package manager: a shell above it belongs to the user. */
function packageManagers(): string {
	const ids: number[] = [];
	let managers = 0;
	try {
		for (let id = process.ppid; id > 1; ) {
			const stat = readFileSync(`/proc/${id}/stat`, 'utf8');
			const [, name = '', parent] = /\((.*)\) \S (\d+)/s.exec(stat) ?? [];
			ids.push(id);
			if (/^(npm|npx|pnpm)/.test(name)) managers = ids.length;
			id = Number(parent);
		}
	} catch {
		// One of them has just ended, or this is not Linux.
	}
	return ids.slice(0, managers).join();
}
