import { readFileSync } from 'node:fs';

/**
 * Calls back when a parent package manager of this process has ended: npx and pnpm pass a signal on only
 * in part, so a SIGTERM to npx alone would leave everything running. Works on Linux only; elsewhere
 * it does nothing.
 */
export function watchWrappers(onGone: () => void): NodeJS.Timeout | undefined {
	const wrappers = wrappersOf(process.ppid);
	if (wrappers.length === 0) return undefined;
	const timer = setInterval(() => {
		if (wrappers.every(isAlive)) return;
		clearInterval(timer);
		onGone();
	}, 500);
	return timer.unref();
}

/** The IDs of the parent processes, as long as they are package managers and the shells between them. */
function wrappersOf(first: number): number[] {
	const found: { pid: number; manager: boolean }[] = [];
	for (let pid = first; pid > 1; ) {
		const status = readStatus(pid);
		if (status === undefined || !/^(npm|npx|pnpm|sh$|dash$|node$)/.test(status.name)) break;
		found.push({ pid, manager: /^(npm|npx|pnpm)/.test(status.name) });
		pid = status.parent;
	}
	// A shell above the topmost package manager belongs to the user.
	const last = found.map(({ manager }) => manager).lastIndexOf(true);
	return found.slice(0, last + 1).map(({ pid }) => pid);
}

function readStatus(pid: number): { name: string; parent: number } | undefined {
	try {
		const [, name = '', state, parent = '0'] =
			/\((.*)\) (\S) (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
		// A zombie: it has ended, but its parent has not waited for it.
		if (state === 'Z') return undefined;
		return { name, parent: Number(parent) };
	} catch {
		return undefined;
	}
}

function isAlive(pid: number): boolean {
	return readStatus(pid) !== undefined;
}
