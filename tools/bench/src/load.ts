import { cpuSecondsOf } from '@contacts/testing/proc.js';
import autocannon from 'autocannon';
import type { BenchDatabase } from './database.js';
import type { LoadRequest } from './scenarios.js';
import type { RunningServer } from './servers.js';

interface Load {
	server: RunningServer;
	connections: number;
	requests: LoadRequest[];
	seconds: number;
}

export interface Measurement {
	requestsPerSecond: number;
	/** Microseconds of processor time for one request. NaN if the system does not report it. */
	serviceMicroseconds: number;
	databaseMicroseconds: number;
}

/** @throws Error when a response has another status than 200, or a request fails */
export async function measure(load: Load, database: BenchDatabase, signal: AbortSignal): Promise<Measurement> {
	const { server } = load;
	const cpuBefore = { service: cpuSecondsOf(server.pid) ?? Number.NaN, database: database.cpuSeconds() };
	const { responses, seconds } = await send(load, signal);
	const perRequest = (cpuSeconds: number) => (cpuSeconds / responses) * 1e6;
	return {
		requestsPerSecond: responses / seconds,
		serviceMicroseconds: perRequest((cpuSecondsOf(server.pid) ?? Number.NaN) - cpuBefore.service),
		databaseMicroseconds: perRequest(database.cpuSeconds() - cpuBefore.database),
	};
}

/** Sends requests for a time, which an abort of the signal ends early. */
async function send(
	{ server, connections, requests, seconds }: Load,
	signal: AbortSignal,
): Promise<{ responses: number; seconds: number }> {
	signal.throwIfAborted();
	const each = Math.ceil(requests.length / connections);
	let connection = 0;
	let startedAt = performance.now();
	const result = await new Promise<autocannon.Result>((resolve, reject) => {
		const instance = autocannon(
			{
				url: server.url,
				connections,
				duration: seconds,
				// It ends at the next sample.
				sampleInt: 50,
				timeout: 10,
				setupClient(client) {
					// Each connection sends a part of many requests, and all of them the same one.
					const from = requests.length > 1 ? each * connection++ : 0;
					client.setRequests(requests.slice(from, from + each));
				},
			},
			(error, finished) => (error ? reject(error) : resolve(finished)),
		);
		// Until then it builds the requests.
		instance.once('start', () => {
			startedAt = performance.now();
		});
		const stop = () => instance.stop();
		signal.addEventListener('abort', stop);
		instance.once('done', () => signal.removeEventListener('abort', stop));
	});
	signal.throwIfAborted();
	const elapsed = (performance.now() - startedAt) / 1000;
	const statuses = Object.entries(result.statusCodeStats ?? {});
	const others = statuses.filter(([status]) => status !== '200').map(([status, { count }]) => `${count} × ${status}`);
	if (others.length > 0) throw new Error(`responses with a status other than 200: ${others.join(', ')}`);
	if (result.errors > 0) throw new Error(`${result.errors} requests failed. ${server.stderr().trim()}`);
	if (result['2xx'] === 0) throw new Error('there was no complete response');
	return { responses: result['2xx'], seconds: elapsed };
}
