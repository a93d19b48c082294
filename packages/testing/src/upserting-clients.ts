import { setTimeout as delay } from 'node:timers/promises';
import type { Time } from './machine-delays.js';
import type { Random } from './random.js';
import { createUpsertClient, type ResponseStatus } from './upsert-client.js';

/** A request that was not acknowledged. */
export interface Failure extends Time {
	outcome: ResponseStatus;
}

export interface Clients {
	/** Upserts that were acknowledged. */
	readonly acknowledged: number;
	/** By chat: the last version that was sent, and the last one that was acknowledged. */
	readonly sent: ReadonlyMap<number, number>;
	readonly stored: ReadonlyMap<number, number>;
	readonly outcomes: ReadonlyMap<ResponseStatus, number>;
	readonly failures: readonly Failure[];
	/** The requests that took more than a second. */
	readonly slow: readonly Time[];
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
	const client = createUpsertClient();
	const sent = new Map<number, number>();
	const stored = new Map<number, number>();
	const outcomes = new Map<ResponseStatus, number>();
	const failures: Failure[] = [];
	const slow: Time[] = [];
	let acknowledged = 0;
	let stopped = false;

	async function run(first: number): Promise<void> {
		let chat = first;
		while (!stopped) {
			// Often saves the same chat again at once, which detects a late older version soonest.
			if (random.integer(1, 4) === 1) chat = first + random.integer(0, chatsEach - 1);
			const version = (sent.get(chat) ?? 0) + 1;
			sent.set(chat, version);
			const begun = performance.now();
			const outcome = await client.upsert(url, { chat_id: chat, ...columnsOf(version) });
			const ended = performance.now();
			if (ended - begun > 1000) slow.push({ begun, ended });
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
	const running = Array.from({ length: count }, (_, index) => run(1 + index * chatsEach));
	return {
		get acknowledged() {
			return acknowledged;
		},
		sent,
		stored,
		outcomes,
		failures,
		slow,
		async stop() {
			stopped = true;
			await Promise.all(running);
			client.close();
		},
	};
}
