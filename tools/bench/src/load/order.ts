/** What the load process is told to do. */
export interface LoadOrder {
	url: string;
	method: 'GET' | 'POST';
	headers: Record<string, string>;
	/** Sends upserts of random chats in place of requests without a body. */
	upserts: boolean;
	connections: number;
	warmUpSeconds: number;
	seconds: number;
	/** Every answer must have this status. */
	status: number;
	/** Of the body of an answer. */
	bytes: number;
}

/** One run: the latencies of the answered requests in milliseconds, and what the load process used of the CPU. */
export interface RawResult {
	latencies: number[];
	seconds: number;
	cpuSeconds: number;
}

/** What it answers: that the warm-up is over, then the result. */
export type LoadMessage = { measuring: true } | { result: LoadResult } | { failure: string };

export interface LoadResult {
	requests: number;
	seconds: number;
	/** Of a single request, in milliseconds. */
	latency: { p50: number; p99: number };
	/** Seconds of a core that the load process itself used meanwhile. */
	cpuSeconds: number;
}
