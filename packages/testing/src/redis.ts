import { accepts } from './ports.js';
import { type RunningProcess, startProcess } from './process.js';
import { waitUntil } from './wait-until.js';

/** A Redis without persistence, on this port of 127.0.0.1 (Debian: redis-server). */
export async function startRedis(port: number): Promise<RunningProcess> {
	const settings = { port, bind: '127.0.0.1', save: '', appendonly: 'no', daemonize: 'no' };
	const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
	const redis = startProcess('redis-server', args);
	await waitUntil(() => accepts(port), { timeoutMs: 10_000, message: redis.output });
	return redis;
}
