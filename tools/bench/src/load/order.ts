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

/** One run. */
export interface RawResult {
	/** How many came; of a big one that came in part, that part. */
	answers: number;
	/** Of each that came whole, in milliseconds. */
	latencies: number[];
	seconds: number;
	/** Seconds of a core that the load process itself used. */
	cpuSeconds: number;
}

/** What it answers: that the warm-up is over, then the result. */
export type LoadMessage = { measuring: true } | { result: LoadResult } | { failure: string };

export interface LoadResult extends Omit<RawResult, 'latencies'> {
	/** Of a single request, in milliseconds. */
	latency: { p50: number; p99: number };
}
