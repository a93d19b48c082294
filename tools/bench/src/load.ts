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

/** @throws Error when a response has another status than 200, a request fails, or the signal is aborted */
export async function measure(load: Load, database: BenchDatabase, signal: AbortSignal): Promise<Measurement> {
	const { server } = load;
	signal.throwIfAborted();
	const cpuSeconds = () => [cpuSecondsOf(server.pid), database.cpuSeconds()] as const;
	const [serviceBefore, databaseBefore] = cpuSeconds();
	const result = await send(load, signal);
	signal.throwIfAborted();
	const [serviceAfter, databaseAfter] = cpuSeconds();
	const responses = result['2xx'];
	if (result.non2xx > 0) throw new Error(`statuses: ${Object.keys(result.statusCodeStats ?? {}).join(', ')}`);
	if (result.errors > 0) throw new Error(`${result.errors} requests failed. ${server.stderr().trim()}`);
	if (responses === 0) throw new Error('there was no complete response');
	return {
		requestsPerSecond: responses / ((Number(result.finish) - Number(result.start)) / 1000),
		serviceMicroseconds: ((serviceAfter - serviceBefore) / responses) * 1e6,
		databaseMicroseconds: ((databaseAfter - databaseBefore) / responses) * 1e6,
	};
}

/** Sends requests for a time, which an abort of the signal ends early. */
function send({ server, connections, requests, seconds }: Load, signal: AbortSignal): Promise<autocannon.Result> {
	const each = Math.ceil(requests.length / connections);
	let connection = 0;
	return new Promise((resolve, reject) => {
		const options: autocannon.Options = {
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
		};
		const instance = autocannon(options, (error, result) => {
			signal.removeEventListener('abort', stop);
			if (error) reject(error);
			else resolve(result);
		});
		const stop = () => instance.stop();
		signal.addEventListener('abort', stop);
	});
}
