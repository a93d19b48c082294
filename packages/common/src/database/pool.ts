import { setTimeout as delay } from 'node:timers/promises';
import { awaitedInVain, backendOf, endBackends } from './backends.js';
import { type ClientOptions, createClient, type PendingStatement, type Sql } from './client.js';
import { DeadlineError, isCutOff } from './errors.js';

/** A statement that was sent, or waits for a connection. */
export interface Sent<Rows> {
	answer: PendingStatement<Rows>;
	/** Nobody waits for the answer any longer. */
	giveUp(): void;
}

export interface Pool {
	/** Sends a statement as soon as none that was lost before it can be executed any more; undefined where it is `late` by then. */
	send<Rows>(statement: (sql: Sql) => PendingStatement<Rows>, late: () => boolean): Promise<Sent<Rows> | undefined>;
	/** Looks after the statements that have waited for a second: whether their connections have gone silent. */
	suspect(): void;
	/** Ends all connections after the statements under way, within 5 seconds. */
	close(): Promise<void>;
}

/** Milliseconds after which it is asked whether a statement is still at work. */
export const suspicious = 1000;

/** Milliseconds that a cancelled statement has to end, before the connections are replaced. */
const settlingTime = 500;

/** Milliseconds that it may take to end lost ones, a new connection included, before the connections are replaced. */
const endingTime = 2500;

/** Milliseconds. */
const pauseBetweenLooks = 250;

interface Client {
	sql: Sql;
	/** When each statement was handed over, in milliseconds of `performance.now()`. */
	running: Map<object, number>;
}

/**
 * Connections that are replaced when they have gone silent, and on which no statement overtakes another.
 *
 * A statement whose connection is lost may still be on its way, held up in the network, and be executed after what is sent
 * later on another connection: an old value would replace a newer one. So before anything else is sent, the server's
 * processes that such statements were meant for are ended.
 */
export function openPool(options: ClientOptions): Pool {
	const open = (): Client => ({ sql: createClient(options), running: new Map() });
	let client = open();
	const lost = new Set<number>();
	const settling = new Set<Promise<void>>();
	let ending: Promise<void> | undefined;
	let watching = false;

	/** A connection that has gone silent never comes back by itself, so all of them are replaced. */
	function replace(silent: Client): void {
		if (client !== silent) return;
		for (const query of silent.running.keys()) lose(query);
		silent.running.clear();
		client = open();
		void silent.sql.end({ timeout: 0 }).catch(() => undefined);
	}

	function lose(query: object): void {
		const pid = backendOf(query);
		if (pid !== undefined) lost.add(pid);
	}

	async function endLost(): Promise<void> {
		const pids = [...lost];
		const through = client;
		let timer: NodeJS.Timeout | undefined;
		// Everybody waits for this: whatever becomes of it, they must not wait for ever.
		const expired = new Promise<never>((_, reject) => {
			timer = setTimeout(() => {
				reject(new DeadlineError(endingTime, true));
				replace(through);
			}, endingTime);
		});
		try {
			await Promise.race([endBackends(through.sql, pids), expired]);
			for (const pid of pids) lost.delete(pid);
		} finally {
			clearTimeout(timer);
			ending = undefined;
		}
	}

	async function watch(): Promise<void> {
		if (watching) return;
		watching = true;
		for (;;) {
			const looked = client;
			const before = performance.now() - suspicious;
			const old = [...looked.running].flatMap(([query, begun]) => (begun <= before ? [query] : []));
			if (old.length === 0) break;
			const pids = old.flatMap((query) => backendOf(query) ?? []);
			if (pids.length > 0 && (await awaitedInVain(options, pids))) replace(looked);
			else await delay(pauseBetweenLooks);
		}
		watching = false;
	}

	return {
		async send(statement, late) {
			while (settling.size > 0 || lost.size > 0) {
				await Promise.all(settling);
				if (lost.size > 0) {
					ending ??= endLost();
					await ending;
				}
				if (late()) return undefined;
			}
			const through = client;
			const { running } = through;
			const answer = statement(through.sql);
			running.set(answer, performance.now());
			answer.then(
				() => running.delete(answer),
				(error: unknown) => {
					if (running.delete(answer) && isCutOff(error)) lose(answer);
				},
			);
			return {
				answer,
				giveUp() {
					answer.cancel();
					const abandoned = new AbortController();
					const ended = () => abandoned.abort();
					answer.then(ended, ended);
					const settled = delay(settlingTime, undefined, { signal: abandoned.signal })
						.then(
							() => replace(through),
							() => undefined,
						)
						.finally(() => settling.delete(settled));
					settling.add(settled);
				},
			};
		},
		suspect: () => void watch(),
		close: () => client.sql.end({ timeout: 5 }),
	};
}
