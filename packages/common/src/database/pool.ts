import type { Turn } from './admission.js';
import { type ClientOptions, createClient, type Sql } from './client.js';
import { DeadlineError } from './errors.js';

/** A client with one connection, and the bounds of the server's clock on it. */
export interface Client {
	sql: Sql;
	clock: ServerClock;
}

export function openClient(options: ClientOptions): Client {
	const clock = new ServerClock();
	return { sql: createClient({ ...options, poolSize: 1, onClose: () => clock.reset() }), clock };
}

/** Closes a client at once, even with a running statement. */
export function endClient({ sql }: Client): void {
	void sql.end({ timeout: 0 }).catch(() => undefined);
}

/** One connection, which runs one statement at a time. It is opened before the first statement, and again after it was lost. */
export class Connection {
	client: Client;

	/** @param generation how often the pool had replaced all connections when this one was made */
	constructor(
		readonly options: ClientOptions,
		public generation: number,
	) {
		this.client = openClient(options);
	}

	/** Closes the connection and its statement. The next statement uses a new one. */
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
 * The connections for statements, and the only queue of statements that wait for one. The client receives a statement only
 * when a connection is free. So it is known which connection runs it, and only the connection that does not respond is
 * closed. It sends no cancel requests: a late one would end the next statement of its connection.
 */
export class ConnectionPool {
	readonly #connections = new Set<Connection>();
	/** The connection that was used last is used next, so that the others stay idle and can be closed. */
	readonly #idle: Connection[] = [];
	readonly #queue: Waiter[] = [];
	#generation = 0;
	#closed = false;

	constructor(readonly options: ClientOptions) {}

	/** Maximum number of open connections. */
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
	 * Waits for a connection. The caller must release it. A statement that had its turn and lost it precedes the others.
	 *
	 * @param neededMs milliseconds that must be left until the deadline
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
	 * Replaces all connections that were opened before now, because their server may be no primary (any more), as that of
	 * this connection. A connection with a running statement is replaced after it. Without an argument, all open connections
	 * are replaced.
	 */
	replaceAll(connection?: Connection): void {
		if (connection === undefined || connection.generation === this.#generation) this.#generation++;
		for (const each of connection === undefined ? this.#idle : [connection, ...this.#idle]) this.#renew(each);
	}

	/** Closes all connections after their running statements, within 5 seconds. */
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

/** Milliseconds after which a new sample replaces a better one, so that the bounds follow a corrected server clock. */
const bestSampleFor = 5_000;

/** Milliseconds after which a sample is invalid. Two clocks drift apart by less than 0.1 % of this time. */
const maxSampleAge = 60_000;

interface Sample {
	/** A bound of how far the server's clock is ahead of `performance.now()`, in milliseconds. */
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
 * The statement was sent before the server's time in its response, and the response was received after it. Between two
 * responses both clocks run at the same speed. So the bounds need only the monotonic clock of this machine. The distance
 * between them is the duration of the fastest recent statement.
 */
export class ServerClock {
	#lower: Sample | undefined;
	#upper: Sample | undefined;

	/**
	 * @param time the server's time in a response
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

	/** The bounds of the server's clock. Undefined without a recent sample. */
	bounds(now: number): ClockBounds | undefined {
		if (this.#lower === undefined || this.#upper === undefined) return undefined;
		if (now - this.#lower.receivedAt > maxSampleAge || now - this.#upper.receivedAt > maxSampleAge) return undefined;
		return { atLeast: now + this.#lower.ahead, atMost: now + this.#upper.ahead };
	}

	/** The connection is closed, and the next one may lead to another server. */
	reset(): void {
		this.#lower = undefined;
		this.#upper = undefined;
	}
}
