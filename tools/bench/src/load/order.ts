/** What the load process should do. */
export interface LoadOrder {
	/** The server's process, whose CPU use is measured meanwhile. */
	pid: number;
	/** The server's URL, without a path. */
	url: string;
	method: 'GET' | 'POST';
	headers: Record<string, string>;
	/** The requests to send, in turn and repeatedly. */
	requests: { path: string; body?: string }[];
	connections: number;
	warmUpSeconds: number;
	seconds: number;
	/** Every response must have this status. */
	status: number;
	/** The length of a response body. */
	bytes: number;
}

/** A short part of a run. */
export interface CpuWindow {
	answers: number;
	/** CPU seconds that the server used. */
	cpuSeconds: number;
}

/** One run. */
export interface LoadResult {
	/** The number of responses. A partial one counts as its share. */
	answers: number;
	/** The latency of a single request, in milliseconds. */
	latency: { p50: number; p99: number };
	seconds: number;
	/** CPU seconds that the generator itself used. */
	cpuSeconds: number;
	/** Empty where the system does not report CPU use. */
	windows: CpuWindow[];
}

export type LoadMessage = { result: LoadResult } | { failure: string };
