import { Agent, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '@contacts/testing/random.js';
import type { StarvedTime, Time } from '@contacts/testing/starved-time.js';
import type { Place } from '../system.js';

/**
 * What came: the status of a response of the service; `foreign`: a response of something in between; `timeout`: none within six
 * seconds; `broken`: the connection failed.
 */
export type Outcome = number | 'foreign' | 'timeout' | 'broken';

export interface Seen extends Time {
	outcome: Outcome;
}

/** A promise was broken. */
export interface Breach extends Time {
	what: string;
	/** How long it may take, in milliseconds, without what a busy machine adds. Default: it never may. */
	limitMs?: number;
}

interface RedisOutages {
	/** How often a replica has begun to limit by itself. */
	own: number;
	/** How often Redis went away or came back, and for how many milliseconds it was away in all. */
	changes: number;
	awayMs: number;
}

/** Whether a busy machine explains it. What may never be, it never explains. */
export const isExcused = (breach: Breach, machine: StarvedTime) =>
	breach.limitMs !== undefined && machine.own(breach) <= breach.limitMs;

/** A client that knows what it was promised, and obeys the guides. */
export interface Judge {
	name: string;
	/** Its number in docs/promises.md. */
	promise: number;
	start(place: Place, random: Random): Sitting | Promise<Sitting>;
}

export interface Sitting {
	/** When it could have seen a breach. */
	readonly judged: readonly number[];
	/** Every response. */
	readonly seen: readonly Seen[];
	/** What it has found so far. */
	readonly breaches: readonly Breach[];
	/** Ends its requests, and judges once more, at rest. */
	stop(redis: RedisOutages): Promise<void>;
}

/** After so many milliseconds a request is given up (docs/bot.md). */
export const giveUpMs = 6000;

/** After so many milliseconds more it can no longer be saved. */
export const settleMs = 6000;

export interface Reply extends Seen {
	body: string;
	headers: IncomingMessage['headers'];
}

/** Sends requests on kept connections, and records what came. */
export function createCaller({ losesNetwork }: Place, random: Random, seen: Seen[]) {
	const agent = new Agent({ keepAlive: true });

	async function exchange(url: string, body: object | undefined): Promise<Omit<Reply, 'begun' | 'ended'>> {
		const sent = request(url, {
			agent,
			method: body === undefined ? 'GET' : 'POST',
			headers: body === undefined ? {} : { 'content-type': 'application/json' },
		});
		// Both ways to give a request up: what the system has of it arrives all the same, or not.
		const giveUp = () => (losesNetwork || random.integer(0, 1) === 0 ? sent.socket?.resetAndDestroy() : sent.destroy());
		let isLate = false;
		const timer = setTimeout(() => {
			isLate = true;
			giveUp();
		}, giveUpMs);
		try {
			const response = await new Promise<IncomingMessage>((resolve, reject) => {
				sent.on('response', resolve).on('error', reject);
				sent.end(body === undefined ? undefined : JSON.stringify(body));
			});
			const received = await text(response);
			const status = response.statusCode as number;
			return { outcome: isOwn(response, received) ? status : 'foreign', body: received, headers: response.headers };
		} catch {
			return { outcome: isLate ? 'timeout' : 'broken', body: '', headers: {} };
		} finally {
			clearTimeout(timer);
		}
	}

	return {
		async call(url: string, body?: object): Promise<Reply> {
			const begun = performance.now();
			const reply = { ...(await exchange(url, body)), begun, ended: performance.now() };
			seen.push({ begun, ended: reply.ended, outcome: reply.outcome });
			return reply;
		},
		close: () => agent.destroy(),
	};
}

/** Whether it is a problem of the service, or the 200 of one of its operations. */
function isOwn({ statusCode, headers }: IncomingMessage, body: string): boolean {
	const type = headers['content-type'] ?? '';
	try {
		const parsed = JSON.parse(body) as Record<string, unknown>;
		if (statusCode !== 200) return type.startsWith('application/problem+json') && typeof parsed.code === 'string';
		return ['ok', 'data', 'changes'].some((field) => field in parsed);
	} catch {
		return false;
	}
}

/** What the guide for the bot's backend says after an unsuccessful response: how long to wait before newer values are sent. */
export async function waitAsTheGuideSays({ outcome, headers }: Reply): Promise<void> {
	const isDecided = outcome === 500 || outcome === 503;
	await delay(isDecided ? Number(headers['retry-after'] ?? 1) * 1000 : settleMs);
}

/** Repeats the work until it is told to stop. */
export function repeat(work: () => Promise<void>, intervalMs: number): { stop(): Promise<void> } {
	let isStopped = false;
	const running = (async () => {
		while (!isStopped) {
			await work();
			await delay(intervalMs);
		}
	})();
	// `stop` reports its error.
	running.catch(() => undefined);
	return {
		async stop() {
			isStopped = true;
			await running;
		},
	};
}
