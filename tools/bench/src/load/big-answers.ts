/**
 * Load for answers of many kilobytes, by Node.js's own client, which parses natively and drops what it has read. autocannon
 * parses in JavaScript and makes text of every body: with lists of megabytes it would be busy seven times as long as the
 * server, and every server would seem to be as fast as it.
 */
import { Agent, get } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { LoadOrder, RawResult } from './order.js';

export async function loadBigAnswers(order: LoadOrder, seconds: number): Promise<RawResult> {
	const { connections } = order;
	const agent = new Agent({ keepAlive: true, maxSockets: connections });
	const cpu = process.cpuUsage();
	const begun = performance.now();
	const latencies: number[] = [];
	let stopped = false;
	const loop = async () => {
		while (!stopped) {
			const asked = performance.now();
			await readAnswer(order, agent);
			// One that came too late would be counted whole, for a time that was measured in part.
			if (!stopped) latencies.push(performance.now() - asked);
		}
	};
	const loops = Promise.all(Array.from({ length: connections }, loop));
	await Promise.race([delay(seconds * 1000), loops]);
	const elapsed = (performance.now() - begun) / 1000;
	const { user, system } = process.cpuUsage(cpu);
	stopped = true;
	await loops;
	agent.destroy();
	return { latencies, seconds: elapsed, cpuSeconds: (user + system) / 1e6 };
}

/** @throws Error when it isn't the whole answer that was expected */
function readAnswer({ url, headers, status, bytes }: LoadOrder, agent: Agent): Promise<void> {
	return new Promise((resolve, reject) => {
		const request = get(url, { headers, agent, timeout: 60_000 }, (response) => {
			let read = 0;
			response.on('data', (chunk: Buffer) => {
				read += chunk.length;
			});
			response.on('error', reject);
			response.on('end', () => {
				if (response.statusCode === status && read === bytes) resolve();
				else
					reject(
						new Error(`an answer of ${read} bytes with status ${response.statusCode}, not ${bytes} with ${status}`),
					);
			});
		});
		request.on('timeout', () => request.destroy(new Error('no answer within 60 s')));
		request.on('error', reject);
	});
}
