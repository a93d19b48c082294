import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from './random.js';

/** The status of a response, or an error code. `HUNG` means no response within ten seconds. */
export type Outcome = number | string;

/** A request that was not acknowledged. Times are milliseconds of `performance.now()`. */
export interface Failure {
	outcome: Outcome;
	begun: number;
	ended: number;
}

export interface Clients {
	/** Upserts that were acknowledged. */
	readonly acknowledged: number;
	/** By chat: the last version that was sent, and the last one that was acknowledged. */
	readonly sent: ReadonlyMap<number, number>;
	readonly stored: ReadonlyMap<number, number>;
	readonly outcomes: ReadonlyMap<Outcome, number>;
	readonly failures: readonly Failure[];
	/** The maximum duration of a request, in milliseconds. */
	readonly slowest: number;
	/** Resolves after the running requests. */
	stop(): Promise<void>;
}

/** The stored form of a chat's version: two columns, which must always come from the same request. */
export const columnsOf = (version: number) => ({ username: `u${version}`, name: `v${version}` });

/**
 * Clients that save separate chats without a pause, each on a keep-alive connection. The next version of a chat is sent
 * only after the previous request has succeeded or failed. So it is always known which version must be stored.
 */
export function startClients(url: string, count: number, chatsEach: number, random: Random): Clients {
	const agent = new Agent({ keepAlive: true, maxSockets: count });
	const sent = new Map<number, number>();
	const stored = new Map<number, number>();
	const outcomes = new Map<Outcome, number>();
	const failures: Failure[] = [];
	let acknowledged = 0;
	let slowest = 0;
	let stopped = false;

	async function run(first: number): Promise<void> {
		let chat = first;
		while (!stopped) {
			// Often saves the same chat again at once, which detects a late older version soonest.
			if (random.integer(1, 4) === 1) chat = first + random.integer(0, chatsEach - 1);
			const version = (sent.get(chat) ?? 0) + 1;
			sent.set(chat, version);
			const begun = performance.now();
			const outcome = await upsert(url, agent, { chat_id: chat, ...columnsOf(version) });
			const ended = performance.now();
			slowest = Math.max(slowest, ended - begun);
			outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
			if (outcome === 200) {
				acknowledged++;
				stored.set(chat, version);
			} else {
				failures.push({ outcome, begun, ended });
				await delay(20);
			}
		}
	}
	const running = Array.from({ length: count }, (_, client) => run(1 + client * chatsEach));
	return {
		get acknowledged() {
			return acknowledged;
		},
		get slowest() {
			return slowest;
		},
		sent,
		stored,
		outcomes,
		failures,
		async stop() {
			stopped = true;
			await Promise.all(running);
			agent.destroy();
		},
	};
}

/** Sends one upsert. The response must be `saved`. */
export function upsert(url: string, agent: Agent, contact: object): Promise<Outcome> {
	return new Promise((resolve) => {
		const asked = request(
			url,
			{ agent, method: 'POST', headers: { 'content-type': 'application/json' } },
			(response) => {
				let text = '';
				response.setEncoding('utf8').on('data', (piece) => {
					text += piece;
				});
				response.on('end', () =>
					done(response.statusCode === 200 && text !== '{"ok":"saved"}' ? text : (response.statusCode ?? 0)),
				);
				response.on('error', failed);
			},
		);
		const limit = setTimeout(() => {
			done('HUNG');
			asked.destroy();
		}, 10_000);
		const done = (outcome: Outcome) => {
			clearTimeout(limit);
			resolve(outcome);
		};
		const failed = (error: NodeJS.ErrnoException) => done(error.code ?? error.message);
		asked.on('error', failed);
		asked.end(JSON.stringify(contact));
	});
}
