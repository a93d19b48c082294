import { type ClientOptions, createClient, type Sql } from './client.js';
import { ServerClock } from './server-clock.js';

/** How the connections for statements are used. */
export interface ConnectionUse {
	/** The most connections that are open at once. */
	readonly limit: number;
	readonly inUse: number;
	/** Statements that wait for one. */
	readonly waiting: number;
}

/** A client with one connection, and what is known of the server's clock over it. */
export interface Client {
	sql: Sql;
	clock: ServerClock;
}

export function openClient(options: ClientOptions): Client {
	const clock = new ServerClock();
	return { sql: createClient({ ...options, poolSize: 1, onClose: () => clock.reset() }), clock };
}

/** Ends a client at once, whatever is under way. */
export function endClient({ sql }: Client): void {
	void sql.end({ timeout: 0 }).catch(() => undefined);
}

/** One connection, which runs one statement at a time. It is made before the first, and again when it was lost. */
export class Lane {
	client: Client;

	/** @param generation how often all lanes had been replaced when this connection was made */
	constructor(
		readonly options: ClientOptions,
		public generation: number,
	) {
		this.client = openClient(options);
	}

	/** Ends the connection, with the statement on it; the next statement goes over another one. */
	replace(client = openClient(this.options)): void {
		endClient(this.client);
		this.client = client;
	}
}

interface Waiter {
	resolve(lane: Lane | undefined): void;
	reject(error: Error): void;
	timer: NodeJS.Timeout;
}

/**
 * The connections for statements, and the one queue of those that wait for one. A statement is handed to the client when a
 * connection is free, never before, so it is known which connection runs it, and a connection that does not respond is ended
 * alone. There is no cancel request: one that arrives late ends the next statement of its connection.
 */
export class Lanes implements ConnectionUse {
	readonly #lanes = new Set<Lane>();
	/** The one that was used last is used next, so that others become idle for long enough to be closed. */
	readonly #idle: Lane[] = [];
	readonly #queue: Waiter[] = [];
	#generation = 0;
	#closed = false;

	constructor(readonly options: ClientOptions) {}

	get limit(): number {
		return this.options.poolSize;
	}

	get inUse(): number {
		return this.#lanes.size - this.#idle.length;
	}

	get waiting(): number {
		return this.#queue.length;
	}

	/**
	 * Waits for a lane, which must be released.
	 *
	 * @param until when waiting ends, in milliseconds of `performance.now()`
	 * @param first whether to go before the others, for a statement that has had its turn and lost it
	 * @returns undefined when the time was up before
	 */
	acquire(until: number, first = false): Promise<Lane | undefined> {
		if (this.#closed) return Promise.reject(closedError());
		const lane = this.#idle.pop() ?? this.#open();
		if (lane !== undefined) return Promise.resolve(lane);
		return new Promise((resolve, reject) => {
			const timer = setTimeout(
				() => {
					this.#queue.splice(this.#queue.indexOf(waiter), 1);
					resolve(undefined);
				},
				Math.ceil(until - performance.now()),
			);
			const waiter: Waiter = { resolve, reject, timer };
			if (first) this.#queue.unshift(waiter);
			else this.#queue.push(waiter);
		});
	}

	release(lane: Lane): void {
		this.#renew(lane);
		const next = this.#queue.shift();
		if (next === undefined) return void this.#idle.push(lane);
		clearTimeout(next.timer);
		next.resolve(lane);
	}

	/**
	 * The server of this lane is no primary (any more), and so may be that of every lane that was opened before now: all of
	 * them are replaced, those with a statement on them after it. Without a lane, all that are open now are meant.
	 */
	replaceAll(lane?: Lane): void {
		if (lane === undefined || lane.generation === this.#generation) this.#generation++;
		for (const each of lane === undefined ? this.#idle : [lane, ...this.#idle]) this.#renew(each);
	}

	/** Ends all connections after the statements under way, within 5 seconds. */
	async close(): Promise<void> {
		this.#closed = true;
		for (const { reject, timer } of this.#queue.splice(0)) {
			clearTimeout(timer);
			reject(closedError());
		}
		await Promise.all([...this.#lanes].map(({ client }) => client.sql.end({ timeout: 5 })));
	}

	#open(): Lane | undefined {
		if (this.#lanes.size === this.limit) return undefined;
		const lane = new Lane(this.options, this.#generation);
		this.#lanes.add(lane);
		return lane;
	}

	#renew(lane: Lane): void {
		if (lane.generation === this.#generation) return;
		lane.generation = this.#generation;
		lane.replace();
	}
}

function closedError(): Error {
	return Object.assign(new Error('the database has been closed'), { code: 'CONNECTION_ENDED' });
}
