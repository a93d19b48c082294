import { Agent, type IncomingMessage, request } from 'node:http';
import type { Time } from './starved-time.js';

/** What became of one request, from sending it to the end of its response. */
export interface ShotResult extends Time {
	/** The status, or the code of the error that ended it. */
	result: number | string;
	retryAfter: string | undefined;
}

export interface Shot {
	method: 'GET' | 'POST';
	path: string;
	body?: string;
}

/**
 * Sends requests at a fixed rate without waiting for earlier responses, like many independent clients.
 *
 * @param perSecond requests a second
 * @param next returns the request with this number
 */
export async function openLoop(
	url: string,
	perSecond: number,
	seconds: number,
	next: (index: number) => Shot,
): Promise<ShotResult[]> {
	const agent = new Agent({ keepAlive: true, maxSockets: 4000, maxFreeSockets: 4000 });
	const outcomes: Promise<ShotResult>[] = [];
	const begun = performance.now();
	await new Promise<void>((resolve) => {
		const timer = setInterval(() => {
			const elapsed = Math.min(performance.now() - begun, seconds * 1000);
			while (outcomes.length < (elapsed / 1000) * perSecond) outcomes.push(send(url, next(outcomes.length), agent));
			if (elapsed < seconds * 1000) return;
			clearInterval(timer);
			resolve();
		}, 4);
	});
	const all = await Promise.all(outcomes);
	agent.destroy();
	return all;
}

/** Runs this many clients. Each sends its next request as soon as it has the response to the one before, or an error. */
export async function closedLoop(
	url: string,
	clients: number,
	seconds: number,
	next: (index: number) => Shot,
): Promise<ShotResult[]> {
	const agent = new Agent({ keepAlive: true, maxSockets: clients });
	const outcomes: ShotResult[] = [];
	const end = performance.now() + seconds * 1000;
	let index = 0;
	const work = async () => {
		while (performance.now() < end) outcomes.push(await send(url, next(index++), agent));
	};
	await Promise.all(Array.from({ length: clients }, work));
	agent.destroy();
	return outcomes;
}

/** Sends one request and reads the whole response. */
export function send(url: string, { method, path, body }: Shot, agent?: Agent): Promise<ShotResult> {
	const begun = performance.now();
	return new Promise((resolve) => {
		let response: IncomingMessage | undefined;
		const done = (result: number | string) =>
			resolve({ result, begun, ended: performance.now(), retryAfter: response?.headers['retry-after'] });
		const asking = request(url + path, {
			method,
			...(agent === undefined ? { agent: false } : { agent }),
			...(body === undefined
				? {}
				: { headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } }),
		});
		asking.on('response', (message) => {
			response = message;
			message.on('end', () => done(message.statusCode ?? 0)).on('error', () => done('cut off'));
			message.resume();
		});
		asking.on('error', (error: NodeJS.ErrnoException) => done(error.code ?? error.message));
		asking.end(body);
	});
}

/** The number of outcomes of each result. */
export function countResults(outcomes: readonly ShotResult[]): Record<string, number> {
	const counts: Record<string, number> = {};
	for (const { result } of outcomes) counts[result] = (counts[result] ?? 0) + 1;
	return counts;
}

const duration = ({ begun, ended }: Time) => ended - begun;

/** The quantile of the durations, or of another measure of the outcomes, in whole milliseconds. Without outcomes, 0. */
export function quantile(outcomes: readonly Time[], part: number, measure = duration): number {
	const sorted = outcomes.map(measure).sort((a, b) => a - b);
	return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0);
}

/** `median / 99 % / longest` in milliseconds. */
export function spread(outcomes: readonly Time[], measure = duration): string {
	return `${[0.5, 0.99, 1].map((part) => quantile(outcomes, part, measure)).join(' / ')} ms`;
}
