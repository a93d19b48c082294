import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '@contacts/local-postgres/ports.js';
import { startRedis } from '@contacts/testing/redis.js';
import { Redis } from 'ioredis';

/** A Redis that can be away, and how long it was. */
export interface RestartableRedis {
	readonly url: string;
	/** How often it went away or came back. */
	readonly changes: number;
	/** For how many milliseconds it was away in all. */
	readonly awayMs: number;
	/** Lets it be away for so many milliseconds: it is not there, does not respond, or has no memory left. */
	away(how: 'gone' | 'frozen' | 'full', forMs: number): Promise<void>;
	stop(): Promise<void>;
}

export async function startRestartableRedis(): Promise<RestartableRedis> {
	const port = await freePort();
	let redis = await startRedis(port);
	let [changes, awayMs] = [0, 0];
	const setMemory = async (bytes: string) => {
		const client = new Redis(port);
		await client.config('SET', 'maxmemory', bytes);
		client.disconnect();
	};
	const start = async () => {
		redis = await startRedis(port);
	};
	const ways = {
		gone: [() => redis.stop('SIGKILL'), start],
		frozen: [async () => redis.kill('SIGSTOP'), async () => redis.kill('SIGCONT')],
		full: [() => setMemory('1'), () => setMemory('0')],
	} as const;
	return {
		url: `redis://127.0.0.1:${port}`,
		get changes() {
			return changes;
		},
		get awayMs() {
			return awayMs;
		},
		async away(how, forMs) {
			const begun = performance.now();
			const [begin, end] = ways[how];
			await begin();
			changes++;
			await delay(forMs);
			await end();
			changes++;
			awayMs += performance.now() - begun;
		},
		stop: () => redis.stop(),
	};
}
