import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from './random.js';

/** An answer's status, or the code of what went wrong in its place. `HUNG` is given up after ten seconds. */
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
	/** By chat: the last version that was sent, and the last that was acknowledged. */
	readonly sent: ReadonlyMap<number, number>;
	readonly stored: ReadonlyMap<number, number>;
	readonly outcomes: ReadonlyMap<Outcome, number>;
	readonly failures: readonly Failure[];
	/** The longest that a request took, in milliseconds. */
	readonly slowest: number;
	/** Gives after the requests under way. */
	stop(): Promise<void>;
}

/** What the version of a chat is stored as: two columns, which must always be of the same request. */
export const columnsOf = (version: number) => ({ username: `u${version}`, name: `v${version}` });

/**
 * Clients that save chats of their own without a pause, each on a connection that is kept: a chat is sent its next version
 * only after the one before was answered or failed, so that there is always one that must be stored.
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
			// Often the same one again, at once: nothing shows sooner that an older version has come in late.
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

/** One upsert; the answer must be `saved`. */
export function upsert(url: string, agent: Agent, contact: object): Promise<Outcome> {
	return new Promise((resolve) => {
		const asked = request(url, { agent, method: 'POST', headers: { 'content-type': 'application/json' } }, (answer) => {
			let text = '';
			answer.setEncoding('utf8').on('data', (piece) => {
				text += piece;
			});
			answer.on('end', () =>
				done(answer.statusCode === 200 && text !== '{"ok":"saved"}' ? text : (answer.statusCode ?? 0)),
			);
			answer.on('error', failed);
		});
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
