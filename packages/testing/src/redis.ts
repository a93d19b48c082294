import { accepts } from '@contacts/local-postgres/ports.js';
import { type RunningProcess, startProcess } from './process.js';
import { waitUntil } from './wait-until.js';

/**
 * A Redis without persistence, on this port of 127.0.0.1 (Debian: redis-server).
 *
 * @param configuration more lines of its configuration
 */
export async function startRedis(port: number, configuration = ''): Promise<RunningProcess> {
	const settings = [`port ${port}`, 'bind 127.0.0.1', 'save ""', 'appendonly no', 'daemonize no', configuration];
	// "-": from standard input.
	const redis = startProcess('redis-server', ['-'], { input: settings.join('\n') });
	await waitUntil(() => accepts(port), { timeoutMs: 10_000, message: redis.output });
	return redis;
}
