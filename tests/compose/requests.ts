import { Agent, request } from 'node:http';

export interface Response {
	/** The status, or the code of the error. */
	status: number | string | undefined;
	body: string;
	headers: Record<string, string | string[] | undefined>;
}

const agent = new Agent({ keepAlive: true, maxSockets: 400 });

export function send(url: string, body?: object): Promise<Response> {
	return new Promise((resolve) => {
		const text = body === undefined ? undefined : JSON.stringify(body);
		const headers = text === undefined ? {} : { 'content-type': 'application/json', 'content-length': text.length };
		const sent = request(url, { agent, method: text === undefined ? 'GET' : 'POST', headers }, (response) => {
			let received = '';
			response.setEncoding('utf8').on('data', (part: string) => {
				received += part;
			});
			response.on('end', () => resolve({ status: response.statusCode, body: received, headers: response.headers }));
		});
		sent.on('error', (error: NodeJS.ErrnoException) => resolve({ status: error.code, body: '', headers: {} }));
		sent.end(text);
	});
}

/** Sends a request every so many milliseconds, whether or not the last one has ended, and counts each status. */
export function loop(intervalMs: number, next: (number: number) => Promise<Response>) {
	const counts: Record<string, number> = {};
	const pending = new Set<Promise<void>>();
	let slowestMs = 0;
	let number = 0;
	const timer = setInterval(() => {
		const startedAt = performance.now();
		number += 1;
		const one: Promise<void> = next(number).then(({ status }) => {
			counts[String(status)] = (counts[String(status)] ?? 0) + 1;
			slowestMs = Math.max(slowestMs, Math.round(performance.now() - startedAt));
			pending.delete(one);
		});
		pending.add(one);
	}, intervalMs);
	return {
		async stop() {
			clearInterval(timer);
			await Promise.all(pending);
			return { counts, slowestMs };
		},
	};
}
