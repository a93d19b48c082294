import type { Turn } from './admission.js';
import { type ClientOptions, createClient, type Sql } from './client.js';
import { DeadlineError } from './errors.js';

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
export class Connection {
	client: Client;

	/** @param generation how often all connections of the pool had been replaced when this one was made */
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
	resolve(connection: Connection): void;
	reject(error: Error): void;
	timer: NodeJS.Timeout;
}

/**
 * The connections for statements, and the one queue of those that wait for one. A statement is handed to the client when a
 * connection is free, never before, so it is known which connection runs it, and a connection that does not respond is ended
 * alone. There is no cancel request: one that arrives late ends the next statement of its connection.
 */
export class ConnectionPool {
	readonly #connections = new Set<Connection>();
	/** The one that was used last is used next, so that others become idle for long enough to be closed. */
	readonly #idle: Connection[] = [];
	readonly #queue: Waiter[] = [];
	#generation = 0;
	#closed = false;

	constructor(readonly options: ClientOptions) {}

	/** The most connections that are open at once. */
	get limit(): number {
		return this.options.poolSize;
	}

	get inUse(): number {
		return this.#connections.size - this.#idle.length;
	}

	/** Statements that wait for a connection. */
	get waiting(): number {
		return this.#queue.length;
	}

	/**
	 * Waits for a connection, which must be released. A statement that has had its turn and lost it goes before the others.
	 *
	 * @param neededMs milliseconds that must be left then
	 * @throws DeadlineError
	 */
	async acquire(turn: Turn, neededMs = 0): Promise<Connection> {
		if (this.#closed) throw closedError();
		const connection = this.#idle.pop() ?? this.#open() ?? (await this.#wait(turn, neededMs));
		turn.startedAt ??= performance.now();
		return connection;
	}

	release(connection: Connection): void {
		this.#renew(connection);
		const next = this.#queue.shift();
		if (next === undefined) return void this.#idle.push(connection);
		clearTimeout(next.timer);
		next.resolve(connection);
	}

	/**
	 * The server of this connection is no primary (any more), and so may be that of every connection that was opened before now:
	 * all of them are replaced, those with a statement on them after it. Without a connection, all that are open now are meant.
	 */
	replaceAll(connection?: Connection): void {
		if (connection === undefined || connection.generation === this.#generation) this.#generation++;
		for (const each of connection === undefined ? this.#idle : [connection, ...this.#idle]) this.#renew(each);
	}

	/** Ends all connections after the statements under way, within 5 seconds. */
	async close(): Promise<void> {
		this.#closed = true;
		for (const { reject, timer } of this.#queue.splice(0)) {
			clearTimeout(timer);
			reject(closedError());
		}
		await Promise.all([...this.#connections].map(({ client }) => client.sql.end({ timeout: 5 })));
	}

	#wait({ askedAt, until, startedAt }: Turn, neededMs: number): Promise<Connection> {
		const hadTurn = startedAt !== undefined;
		return new Promise((resolve, reject) => {
			const expire = () => {
				this.#queue.splice(this.#queue.indexOf(waiter), 1);
				reject(new DeadlineError(until - askedAt, hadTurn));
			};
			const timer = setTimeout(expire, Math.ceil(until - neededMs - performance.now()));
			const waiter: Waiter = { resolve, reject, timer };
			if (hadTurn) this.#queue.unshift(waiter);
			else this.#queue.push(waiter);
		});
	}

	#open(): Connection | undefined {
		if (this.#connections.size === this.limit) return undefined;
		const connection = new Connection(this.options, this.#generation);
		this.#connections.add(connection);
		return connection;
	}

	#renew(connection: Connection): void {
		if (connection.generation === this.#generation) return;
		connection.generation = this.#generation;
		connection.replace();
	}
}

function closedError(): Error {
	return Object.assign(new Error('the database has been closed'), { code: 'CONNECTION_ENDED' });
}

/** Milliseconds after which a new sample replaces a better one, so that a corrected clock of the server is followed. */
const bestSampleFor = 5_000;

/** Milliseconds after which a sample says nothing any more: two clocks run apart by less than 0.1 % of it. */
const maxSampleAge = 60_000;

interface Sample {
	/** Milliseconds by which the server's clock is ahead of `performance.now()`, at least or at the most. */
	ahead: number;
	receivedAt: number;
}

/** Bounds of the server's clock, in milliseconds since the epoch. */
interface ClockBounds {
	atLeast: number;
	atMost: number;
}

/**
 * Bounds of the server's clock.
 *
 * A response that holds the server's time was received after that time, and its statement was sent before it. Between two
 * responses both clocks run at the same speed. So the bounds need no clock of this machine but the one that never goes back,
 * and are apart by the time that the quickest of the last statements took.
 */
export class ServerClock {
	#lower: Sample | undefined;
	#upper: Sample | undefined;

	/**
	 * @param time what the server's clock said in a response
	 * @param sentAt when its statement was sent, in milliseconds of `performance.now()`
	 * @param receivedAt when the response was received
	 */
	addSample(time: number, sentAt: number, receivedAt: number): void {
		const lower = { ahead: time - receivedAt, receivedAt };
		const upper = { ahead: time - sentAt, receivedAt };
		const isOld = (best: Sample) => receivedAt - best.receivedAt > bestSampleFor;
		if (this.#lower === undefined || lower.ahead >= this.#lower.ahead || isOld(this.#lower)) this.#lower = lower;
		if (this.#upper === undefined || upper.ahead <= this.#upper.ahead || isOld(this.#upper)) this.#upper = upper;
	}

	/** Between which times the server's clock is; undefined without a recent sample. */
	bounds(now: number): ClockBounds | undefined {
		if (this.#lower === undefined || this.#upper === undefined) return undefined;
		if (now - this.#lower.receivedAt > maxSampleAge || now - this.#upper.receivedAt > maxSampleAge) return undefined;
		return { atLeast: now + this.#lower.ahead, atMost: now + this.#upper.ahead };
	}

	/** The connection is gone, and the next one may be to another server. */
	reset(): void {
		this.#lower = undefined;
		this.#upper = undefined;
	}
}
