/** Load with responses of a few kilobytes at most, by autocannon. */
import autocannon from 'autocannon';
import type { LoadOrder, LoadResult } from './order.js';
import { latencyOf, watchCosts } from './windows.js';

/** @throws Error when a response had another status, or a request failed */
export async function loadSmallAnswers(order: LoadOrder, seconds: number): Promise<LoadResult> {
	const { pid, url, method, headers, requests, connections, status } = order;
	const each = Math.ceil(requests.length / connections);
	let connection = 0;
	const latencies: number[] = [];
	let begun = 0;
	let cpu = process.cpuUsage();
	const costs = watchCosts(pid, () => latencies.length);
	const result = await new Promise<autocannon.Result>((resolve, reject) => {
		const instance = autocannon(
			{
				url,
				method,
				headers,
				connections,
				duration: seconds,
				sampleInt: 50,
				timeout: 60,
				setupClient(client) {
					// Each connection starts at a different position in the same list.
					const from = each * connection++;
					const own = [...requests.slice(from), ...requests.slice(0, from)];
					client.setRequests(own.map((request) => ({ method, headers, ...request })));
				},
			},
			(error, finished) => (error ? reject(error) : resolve(finished)),
		);
		// At this point autocannon has built the requests and begins to send them.
		instance.once('start', () => {
			begun = Date.now();
			cpu = process.cpuUsage();
		});
		instance.on('response', (_client, _status, _bytes, milliseconds) => {
			latencies.push(milliseconds);
		});
	});
	const { user, system } = process.cpuUsage(cpu);
	const windows = costs();
	const wrong = Object.entries(result.statusCodeStats ?? {}).filter(([code]) => Number(code) !== status);
	if (wrong.length > 0) {
		const codes = wrong.map(([code, { count }]) => `${count} of status ${code}`);
		throw new Error(`answers other than ${status}: ${codes.join(', ')}`);
	}
	if (result.errors > 0) throw new Error(`${result.errors} requests failed, ${result.timeouts} of them by a timeout`);
	return {
		answers: latencies.length,
		latency: latencyOf(latencies),
		seconds: (result.finish.getTime() - begun) / 1000,
		cpuSeconds: (user + system) / 1e6,
		windows,
	};
}
