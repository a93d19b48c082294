import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';

/** Information about processes from Linux's /proc (proc(5)). */

/** Memory of a process in MiB. */
export interface Memory {
	resident: number;
	/** The peak resident memory of the process. */
	peak: number;
}

/** Resident memory of a process in MiB. */
export const residentMiB = (pid: number) => memoryOf(pid).resident;

export function memoryOf(pid: number): Memory {
	const status = read(`/proc/${pid}/status`);
	const mebibytes = (field: string) => Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024;
	return { resident: mebibytes('VmRSS'), peak: mebibytes('VmHWM') };
}

/** Seconds of a core that the threads of a process have used, without those that have ended. */
export function cpuSecondsOf(pid: number): number {
	const threads = readdirSync(`/proc/${pid}/task`);
	const nanoseconds = threads.map((id) => Number(read(`/proc/${pid}/task/${id}/schedstat`).split(' ')[0]));
	return nanoseconds.reduce((sum, time) => sum + time, 0) / 1e9;
}

/** Milliseconds for which its main thread could run but had no processor. */
export const starvedMsOf = (pid: number) => Number(read(`/proc/${pid}/schedstat`).split(' ')[1] ?? 0) / 1e6;

/** Milliseconds that the hypervisor has taken from each processor while it had work, in steps of 10. */
export function stolenMsIn(stat = read('/proc/stat')): number[] {
	return [...stat.matchAll(/^cpu\d+(?: \d+){7} (\d+)/gm)].map(([, ticks]) => Number(ticks) * 10);
}

/** Whether this process is running. A zombie counts as ended. */
export const isAlive = (pid: number) => /^State:\t[^ZX]/m.test(read(`/proc/${pid}/status`));

/** Whether a signal has stopped this process until it continues. */
export const isStopped = (pid: number) => /^State:\tT/m.test(read(`/proc/${pid}/status`));

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

/** What the system buffers of the responses of a server on this port that their clients have not received, in bytes. */
export function unsentBytes(port: number): number {
	const address = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`;
	const lines = read('/proc/net/tcp')
		.split('\n')
		.map((line) => line.trim().split(/\s+/));
	const queues = lines.filter(([, local]) => local === address).map(([, , , , queue]) => String(queue).split(':')[0]);
	return queues.reduce((sum, bytes) => sum + Number.parseInt(String(bytes), 16), 0);
}

function read(file: string): string {
	try {
		return readFileSync(file, 'utf8');
	} catch {
		return '';
	}
}
