import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';

/** Information about processes from Linux's /proc (proc(5)). On other systems it comes only from signals. */

/** Memory of a process in MiB. */
export interface Memory {
	resident: number;
	/** The peak resident memory of the process. */
	peak: number;
}

/** Resident memory of a process in MiB; NaN if the system does not report it. */
export const residentMiB = (pid: number) => memoryOf(pid)?.resident ?? Number.NaN;

/** @returns undefined if the system does not report it */
export function memoryOf(pid: number): Memory | undefined {
	const status = read(`/proc/${pid}/status`);
	const mebibytes = (field: string) => Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024;
	const memory = { resident: mebibytes('VmRSS'), peak: mebibytes('VmHWM') };
	return Number.isNaN(memory.peak) ? undefined : memory;
}

/** @returns seconds of a core that a process has used, in user and kernel mode; undefined if the system does not report it */
export function cpuSecondsOf(pid: number): number | undefined {
	// This counts nanoseconds if the kernel does, but excludes threads that have ended.
	const threads = threadsOf(pid).map((id) => Number(read(`/proc/${pid}/task/${id}/schedstat`).split(' ')[0]));
	const nanoseconds = threads.reduce((sum, time) => sum + time, 0);
	if (nanoseconds > 0) return nanoseconds / 1e9;
	// The 14th and 15th field count the time in hundredths of a second, on every architecture that Linux runs Node.js on.
	const fields = statOf(pid);
	const ticks = Number(fields?.[11]) + Number(fields?.[12]);
	return Number.isNaN(ticks) ? undefined : ticks / 100;
}

/** @returns milliseconds for which its main thread could run but had no processor; 0 if the system does not report it */
export const starvedMsOf = (pid: number) => Number(read(`/proc/${pid}/schedstat`).split(' ')[1] ?? 0) / 1e6;

/** Whether this process is running. A zombie counts as ended. */
export function isAlive(pid: number): boolean {
	if (process.platform === 'linux') return !['Z', 'X', undefined].includes(statOf(pid)?.[0]);
	try {
		process.kill(pid, 0);
		return true;
	} catch {
		return false;
	}
}

/** Processes that this one has started. */
export function childrenOf(pid: number): number[] {
	return read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number);
}

/** The size of the open files of a process below this folder, including deleted ones, in bytes. */
export function openBytes(pid: number, folder: string): number {
	let sum = 0;
	for (const descriptor of readdirSync(`/proc/${pid}/fd`)) {
		const path = `/proc/${pid}/fd/${descriptor}`;
		try {
			if (readlinkSync(path).startsWith(folder)) sum += statSync(path).size;
		} catch {
			// It was closed after it was listed.
		}
	}
	return sum;
}

function threadsOf(pid: number): string[] {
	try {
		return readdirSync(`/proc/${pid}/task`);
	} catch {
		return [];
	}
}

/** The fields of /proc/PID/stat from the third (the state) on. The second is the name, which may contain anything. */
function statOf(pid: number): string[] | undefined {
	const stat = read(`/proc/${pid}/stat`);
	return stat === '' ? undefined : stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
}

function read(file: string): string {
	try {
		return readFileSync(file, 'utf8');
	} catch {
		return '';
	}
}
