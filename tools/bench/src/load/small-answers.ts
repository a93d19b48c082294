/** Load for answers of a few kilobytes at most, by autocannon. */
import autocannon from 'autocannon';
import type { LoadOrder, RawResult } from './order.js';
import { upsertBodies } from './upserts.js';

/** Distinct upserts in a run, over all connections; each connection begins again with its own when they are used up. */
const distinctUpserts = 20_000;

/** @throws Error when an answer had another status, or a request failed */
export async function loadSmallAnswers(order: LoadOrder, seconds: number): Promise<RawResult> {
	const { url, method, headers, connections, status } = order;
	const each = Math.ceil(distinctUpserts / connections);
	const latencies: number[] = [];
	let begun = 0;
	let cpu = process.cpuUsage();
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
					if (order.upserts) client.setRequests(upsertBodies(each).map((body) => ({ method, headers, body })));
				},
			},
			(error, finished) => (error ? reject(error) : resolve(finished)),
		);
		// Making the requests is over then, and sending them begins.
		instance.once('start', () => {
			begun = Date.now();
			cpu = process.cpuUsage();
		});
		instance.on('response', (_client, _status, _bytes, milliseconds) => {
			latencies.push(milliseconds);
		});
	});
	const { user, system } = process.cpuUsage(cpu);
	const wrong = Object.entries(result.statusCodeStats ?? {}).filter(([code]) => Number(code) !== status);
	if (wrong.length > 0) {
		const codes = wrong.map(([code, { count }]) => `${count} of status ${code}`);
		throw new Error(`answers other than ${status}: ${codes.join(', ')}`);
	}
	if (result.errors > 0) throw new Error(`${result.errors} requests failed, ${result.timeouts} of them by a timeout`);
	return {
		answers: latencies.length,
		latencies,
		seconds: (result.finish.getTime() - begun) / 1000,
		cpuSeconds: (user + system) / 1e6,
	};
}
