import type { Load } from './load.js';
import type { Service } from './service.js';
import type { Stage } from './stage.js';

/** What one service used at one moment. */
export interface Use {
	/** MiB. */
	resident: number;
	/** MiB of JavaScript's heap. */
	heap: number;
	/** Open file descriptors. Undefined where the system does not report them. */
	descriptors: number | undefined;
	/** Handles that the event loop watches. */
	handles: number;
	/** TCP connections, of clients and to the database. */
	sockets: number;
}

export interface Sample {
	/** Since the start of the run. */
	seconds: number;
	company: Use;
	personal: Use;
	/** Connections of PostgreSQL, by application name. */
	backends: Map<string, number>;
	/** Per second, since the previous sample. */
	answers: number;
	unexpected: number;
}

/** Takes samples. Each counts the responses since the previous one. */
export function sampler(stage: Stage, load: Load): () => Promise<Sample> {
	const begun = performance.now();
	let before = { seconds: 0, answered: 0, unexpected: 0 };
	return async () => {
		const [company, personal, backends] = await Promise.all([
			use(stage.company),
			use(stage.personal),
			stage.backends(),
		]);
		const seconds = (performance.now() - begun) / 1000;
		const now = { seconds, answered: load.answered, unexpected: load.unexpected };
		const elapsed = seconds - before.seconds;
		const sample = {
			seconds,
			company,
			personal,
			backends,
			answers: (now.answered - before.answered) / elapsed,
			unexpected: (now.unexpected - before.unexpected) / elapsed,
		};
		before = now;
		return sample;
	};
}

async function use(service: Service): Promise<Use> {
	const answer = await fetch(`${service.url}/metrics`, { signal: AbortSignal.timeout(5000) });
	const text = await answer.text();
	const value = (name: string) => {
		const found = text.split('\n').find((line) => line.startsWith(`${name} `));
		return found === undefined ? undefined : Number(found.slice(name.length + 1));
	};
	const resources = [...text.matchAll(/^nodejs_active_resources\{type="\w+"\} (\d+)$/gm)];
	const needed = (name: string) => {
		const number = value(name);
		if (number === undefined) throw new Error(`${service.name} has no metric ${name}`);
		return number;
	};
	return {
		resident: needed('process_resident_memory_bytes') / 2 ** 20,
		heap: needed('nodejs_heap_size_used_bytes') / 2 ** 20,
		descriptors: value('process_open_fds'),
		handles: resources.reduce((sum, [, count]) => sum + Number(count), 0),
		sockets: value('nodejs_active_resources{type="TCPSocketWrap"}') ?? 0,
	};
}
