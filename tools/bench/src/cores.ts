import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { platform } from 'node:process';

/**
 * On a shared machine one core can be 30 % slower than the other for minutes. So both sides run on the same core, and
 * the load generator on another one. Elsewhere than on Linux the system decides.
 */
const [serverCore, loadCore] = platform === 'linux' ? allowedCores() : [];

/** The command that runs a program on the core of the servers. */
export function onServerCore(command: string[]): string[] {
	return loadCore === undefined ? command : ['taskset', '--cpu-list', String(serverCore), ...command];
}

/** Keeps this process, and what it starts from now on, on the core of the load generator. */
export function moveToLoadCore(): void {
	if (loadCore === undefined) return;
	execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', String(loadCore), String(process.pid)]);
}

/** The cores that this process may use, as in `Cpus_allowed_list: 0-3,8`. */
function allowedCores(): number[] {
	const list = /^Cpus_allowed_list:\s*(.*)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '';
	return list.split(',').flatMap((range) => {
		const [first = Number.NaN, last = first] = range.split('-').map(Number);
		return Array.from({ length: last - first + 1 }, (_, index) => first + index);
	});
}
