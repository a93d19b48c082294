import { readFileSync } from 'node:fs';

/** Memory of a process in MiB; null where the system doesn't tell (it is read from /proc, on Linux only). */
export interface Memory {
	resident: number;
	/** The most that was resident since the process began. */
	peak: number;
}

export function memoryOf(pid: number): Memory | null {
	const status = read(`/proc/${pid}/status`);
	const mebibytes = (field: string) => Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024;
	const memory = { resident: mebibytes('VmRSS'), peak: mebibytes('VmHWM') };
	return Number.isNaN(memory.peak) ? null : memory;
}

/** Seconds of a core that a process has used so far, in user and kernel mode; null where the system doesn't tell. */
export function cpuSecondsOf(pid: number): number | null {
	// After the name, which may hold anything, come the fields from the third on; the 14th and 15th count the time in
	// hundredths of a second, on every architecture that Linux runs Node.js on.
	const fields = read(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ') ?? [];
	const ticks = Number(fields[11]) + Number(fields[12]);
	return Number.isNaN(ticks) ? null : ticks / 100;
}

function read(file: string): string {
	try {
		return readFileSync(file, 'utf8');
	} catch {
		return '';
	}
}
