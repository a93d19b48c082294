/** Load by autocannon, where there is no wrk. */
import { cpuSecondsOf } from '@contacts/testing/proc.js';
import autocannon from 'autocannon';
import { quantile } from '../statistics.js';
import type { CpuWindow, LoadOrder, LoadResult } from './load.js';

/** Short enough that nothing else runs on the machine during some windows, and long enough for at least a hundred responses. */
const windowMs = 250;

/** @throws Error when a response had another status, or a request failed */
export async function loadByAutocannon(order: LoadOrder, seconds: number): Promise<LoadResult> {
	const { pid, url, method, headers, requests, connections, status } = order;
	const each = Math.ceil(requests.length / connections);
	let connection = 0;
	const latencies: number[] = [];
	let begun = 0;
	let cpu = process.cpuUsage();
	const windows: CpuWindow[] = [];
	let before = { responses: 0, cpu: cpuSecondsOf(pid) };
	const timer = setInterval(() => {
		const now = { responses: latencies.length, cpu: cpuSecondsOf(pid) };
		if (now.cpu !== undefined && before.cpu !== undefined && now.responses > before.responses)
			windows.push({ responses: now.responses - before.responses, cpuSeconds: now.cpu - before.cpu });
		before = now;
	}, windowMs);
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
	}).finally(() => clearInterval(timer));
	const { user, system } = process.cpuUsage(cpu);
	const wrong = Object.entries(result.statusCodeStats ?? {}).filter(([code]) => Number(code) !== status);
	if (wrong.length > 0) {
		const codes = wrong.map(([code, { count }]) => `${count} of status ${code}`);
		throw new Error(`responses with a status other than ${status}: ${codes.join(', ')}`);
	}
	if (result.errors > 0) throw new Error(`${result.errors} requests failed, ${result.timeouts} of them by a timeout`);
	if (latencies.length === 0) throw new Error('no response was complete');
	const sorted = Float64Array.from(latencies).sort();
	return {
		responses: latencies.length,
		latency: { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) },
		seconds: (result.finish.getTime() - begun) / 1000,
		cpuSeconds: (user + system) / 1e6,
		windows,
	};
}
