/**
 * Load with large responses, by Node.js's own client, which parses natively and discards what it has read. autocannon
 * parses in JavaScript and decodes every body to text. With lists of megabytes it would use seven times the CPU of the
 * server, and every server would seem as fast as autocannon.
 */
import { Agent, get } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { LoadOrder, LoadResult } from './order.js';
import { latencyOf, watchCosts } from './windows.js';

export async function loadBigAnswers(order: LoadOrder, seconds: number): Promise<LoadResult> {
	const { connections } = order;
	const agent = new Agent({ keepAlive: true, maxSockets: connections });
	const cpu = process.cpuUsage();
	const begun = performance.now();
	const latencies: number[] = [];
	let bytes = 0;
	const costs = watchCosts(order.pid, () => bytes / order.bytes);
	let stopped = false;
	const loop = async () => {
		while (!stopped) {
			const asked = performance.now();
			await readAnswer(order, agent, (length) => {
				bytes += length;
			});
			latencies.push(performance.now() - asked);
		}
	};
	const loops = Promise.all(Array.from({ length: connections }, loop));
	await Promise.race([delay(seconds * 1000), loops]);
	const elapsed = (performance.now() - begun) / 1000;
	const { user, system } = process.cpuUsage(cpu);
	const windows = costs();
	// Aborts the requests in flight. Each counts as the share of its bytes that arrived.
	stopped = true;
	loops.catch(() => undefined);
	agent.destroy();
	return {
		answers: bytes / order.bytes,
		latency: latencyOf(latencies),
		seconds: elapsed,
		cpuSeconds: (user + system) / 1e6,
		windows,
	};
}

/** @throws Error when the response is incomplete or unexpected */
function readAnswer(order: LoadOrder, agent: Agent, count: (bytes: number) => void): Promise<void> {
	const { headers, requests, status, bytes } = order;
	const url = order.url + requests[0]?.path;
	return new Promise((resolve, reject) => {
		const request = get(url, { headers, agent, timeout: 60_000 }, (response) => {
			let read = 0;
			response.on('data', (chunk: Buffer) => {
				read += chunk.length;
				count(chunk.length);
			});
			response.on('error', reject);
			response.on('end', () => {
				if (response.statusCode === status && read === bytes) resolve();
				else reject(new Error(`${read} bytes with status ${response.statusCode}, not ${bytes} with ${status}`));
			});
		});
		request.on('timeout', () => request.destroy(new Error('no answer within 60 s')));
		request.on('error', reject);
	});
}
