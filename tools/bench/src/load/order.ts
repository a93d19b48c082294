/** What the load process is told to do. */
export interface LoadOrder {
	/** The server's process, whose use of the CPU is measured beside. */
	pid: number;
	/** Of the server, without a path. */
	url: string;
	method: 'GET' | 'POST';
	headers: Record<string, string>;
	/** What is sent, again and again in turn. */
	requests: { path: string; body?: string }[];
	connections: number;
	warmUpSeconds: number;
	seconds: number;
	/** Every answer must have this status. */
	status: number;
	/** Of the body of an answer. */
	bytes: number;
}

/** A short part of a run. */
export interface CpuWindow {
	answers: number;
	/** Seconds of a core that the server has used. */
	cpuSeconds: number;
}

/** One run. */
export interface LoadResult {
	/** How many came; of a big one that came in part, that part. */
	answers: number;
	/** Of a single request, in milliseconds. */
	latency: { p50: number; p99: number };
	seconds: number;
	/** Seconds of a core that the generator itself used. */
	cpuSeconds: number;
	/** None where the system does not tell the use of the CPU. */
	windows: CpuWindow[];
}

export type LoadMessage = { result: LoadResult } | { failure: string };
