import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';

/** Facts about processes, as Linux tells them in /proc (proc(5)); elsewhere only what `ps` and signals tell. */

/** Memory of a process in MiB. */
export interface Memory {
	resident: number;
	/** The most that was resident since the process began. */
	peak: number;
}

/** Resident memory of a process in MiB; NaN where the system does not tell. */
export const residentMiB = (pid: number) => memoryOf(pid)?.resident ?? Number.NaN;

/** @returns undefined where the system does not tell */
export function memoryOf(pid: number): Memory | undefined {
	const status = read(`/proc/${pid}/status`);
	const mebibytes = (field: string) => Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024;
	const memory = { resident: mebibytes('VmRSS'), peak: mebibytes('VmHWM') };
	return Number.isNaN(memory.peak) ? undefined : memory;
}

/** @returns seconds of a core that a process has used, in user and kernel mode; undefined where the system does not tell */
export function cpuSecondsOf(pid: number): number | undefined {
	// To the nanosecond, where the kernel counts so; of threads that have ended, it tells nothing.
	const threads = threadsOf(pid).map((id) => Number(read(`/proc/${pid}/task/${id}/schedstat`).split(' ')[0]));
	const nanoseconds = threads.reduce((sum, time) => sum + time, 0);
	if (nanoseconds > 0) return nanoseconds / 1e9;
	// The 14th and 15th field count the time in hundredths of a second, on every architecture that Linux runs Node.js on.
	const fields = statOf(pid);
	const ticks = Number(fields?.[11]) + Number(fields?.[12]);
	return Number.isNaN(ticks) ? undefined : ticks / 100;
}

/** Whether there is such a process. One that has ended counts as gone, whether its exit code was collected or not. */
export function isAlive(pid: number): boolean {
	if (process.platform === 'linux') return !['Z', 'X', undefined].includes(statOf(pid)?.[0]);
	try {
		process.kill(pid, 0);
		return true;
	} catch {
		return false;
	}
}

/** The ID of a process's parent. */
export function parentOf(pid: number): number {
	if (process.platform === 'linux') return Number(statOf(pid)?.[1]);
	return Number(execFileSync('ps', ['-o', 'ppid=', '-p', String(pid)]));
}

/** Processes that this one has started. */
export function childrenOf(pid: number): number[] {
	return read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number);
}

/** Bytes of the files below this folder that a process has open, those too that have no name any more. */
export function openBytes(pid: number, folder: string): number {
	let sum = 0;
	for (const descriptor of readdirSync(`/proc/${pid}/fd`)) {
		const path = `/proc/${pid}/fd/${descriptor}`;
		try {
			if (readlinkSync(path).startsWith(folder)) sum += statSync(path).size;
		} catch {
			// Closed since it was listed.
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

/** The fields of /proc/PID/stat from the third on, the state: those before hold the name, which may be anything. */
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
