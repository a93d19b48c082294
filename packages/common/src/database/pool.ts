import type { Admission } from './admission.js';
import {
	type Client,
	type ClientOptions,
	defaultStatementTimeoutMs,
	endClient,
	openClient,
	type PendingStatement,
	type Sql,
} from './client.js';
import { type Deadline, remainingMs, timedOut, withTimeout } from './deadline.js';
import { classify, closedError, DeadlineError } from './errors.js';

/** How much later than the server's time limit of a statement its response may arrive. */
const networkMarginMs = 250;

/** The minimum interval between two renewals because of a read-only server: it may stay read-only for long. */
const minRenewalIntervalMs = 1000;

/** One connection, which runs one statement at a time. It is opened before the first statement, and again after it was lost. */
export class Connection {
	client: Client;
	#isOutdated = false;
	#isClosed = false;

	constructor(readonly options: ClientOptions) {
		this.client = openClient(options);
	}

	/** Lets `refresh` replace this connection. Its running statement is not ended. */
	outdate(): void {
		this.#isOutdated = true;
	}

	/** Call this before each statement. It replaces the connection if it is outdated. */
	refresh(): void {
		if (this.#isOutdated) this.replace();
	}

	/** Closes the connection and its statement. The next statement opens a new one. */
	replace(): void {
		endClient(this.client);
		this.#isOutdated = false;
		if (!this.#isClosed) this.client = openClient(this.options);
	}

	/**
	 * Waits for a response. A connection without one in time may be lost in the network, so it is closed. It sends no cancel
	 * request: a late one would end the next statement of the connection.
	 *
	 * @throws DeadlineError
	 */
	async respond<Rows>(pending: PromiseLike<Rows>, timeoutMs: number): Promise<Rows> {
		const rows = await withTimeout(pending, timeoutMs);
		if (rows !== timedOut) return rows;
		this.replace();
		throw new DeadlineError(timeoutMs, true);
	}

	/** Closes the connection after its running statement, within 2 seconds. An unresponsive one takes this long. */
	async close(): Promise<void> {
		this.#isClosed = true;
		await this.client.sql.end({ timeout: 2 });
	}
}

const notSent = ({ startedAt, expiresAt }: Deadline) => new DeadlineError(expiresAt - startedAt, false);

interface Waiter {
	resolve(connection: Connection): void;
	reject(error: Error): void;
	timer: NodeJS.Timeout;
	endWaiting(): void;
}

export interface PoolOptions extends ClientOptions {
	/** Maximum number of open connections. */
	poolSize: number;
	/** It counts those who wait for a connection. */
	admission: Pick<Admission, 'startWaiting'>;
	/** Called when a connection is free again, or the wait for one has failed, with the wait and the whole time in milliseconds. */
	onStatement?: (waitedMs: number, tookMs: number) => void;
}

/**
 * A semaphore of connections, and the only queue of statements that wait for one. The client receives a statement only when
 * its connection is free. So it is known which connection runs it, and only the connection that does not respond is closed.
 */
export class ConnectionPool {
	readonly #connections: readonly Connection[];
	/** The connection that was used last is used next, so that the others stay idle and can be closed. */
	readonly #idle: Connection[];
	readonly #queue: Waiter[] = [];
	#renewedAt = Number.NEGATIVE_INFINITY;
	#isClosed = false;

	constructor(readonly options: PoolOptions) {
		this.#connections = Array.from({ length: options.poolSize }, () => new Connection(options));
		this.#idle = [...this.#connections];
	}

	/** Maximum number of open connections. */
	get limit(): number {
		return this.#connections.length;
	}

	get inUse(): number {
		return this.#connections.length - this.#idle.length;
	}

	/** Statements that wait for a connection. */
	get waiting(): number {
		return this.#queue.length;
	}

	/**
	 * Runs work on a connection that nobody else uses.
	 *
	 * @param options.neededMs milliseconds that must be left until the deadline when it begins
	 * @param options.isRepeated it was refused before, because of its row, which may be locked: its wait says nothing about the
	 *   capacity for others
	 * @throws DeadlineError when no connection was free in time
	 */
	async run<Result>(
		deadline: Deadline,
		work: (connection: Connection) => Promise<Result>,
		{ neededMs = 0, isRepeated = false } = {},
	): Promise<Result> {
		if (this.#isClosed) throw closedError();
		const startedAt = performance.now();
		let waitedMs: number | undefined;
		try {
			const connection = this.#idle.pop() ?? (await this.#wait(deadline, neededMs, isRepeated));
			waitedMs = performance.now() - startedAt;
			try {
				// The timers of a busy process are late.
				if (remainingMs(deadline) < neededMs) throw notSent(deadline);
				return await work(connection);
			} finally {
				this.#release(connection);
			}
		} finally {
			const tookMs = performance.now() - startedAt;
			this.options.onStatement?.(waitedMs ?? tookMs, tookMs);
		}
	}

	/**
	 * Sends a statement that may be executed twice. It is sent once more if its connection was lost, or has no response
	 * although the server would have ended the statement by now.
	 *
	 * @param isOnNew whether to open a new connection for it
	 */
	query<Rows>(deadline: Deadline, statement: (sql: Sql) => PendingStatement<Rows>, isOnNew = false): Promise<Rows> {
		const { statementTimeoutMs = defaultStatementTimeoutMs } = this.options;
		return this.run(deadline, async (connection) => {
			const send = (timeoutMs: number) => {
				connection.refresh();
				return connection.respond(statement(connection.client.sql), timeoutMs);
			};
			if (isOnNew) connection.outdate();
			try {
				return await send(Math.min(statementTimeoutMs + networkMarginMs, remainingMs(deadline)));
			} catch (error) {
				const { kind, isSentAgain, isRefused } = classify(error);
				if (kind === 'read-only') this.onReadOnly();
				if (!isSentAgain || isRefused || remainingMs(deadline) <= 0) throw error;
				return await send(remainingMs(deadline));
			}
		});
	}

	/**
	 * Replaces each connection before its next statement, because it may be lost, or lead to a former primary. Running
	 * statements are not ended.
	 */
	renew(): void {
		this.#renewedAt = performance.now();
		for (const connection of this.#connections) connection.outdate();
	}

	/** A server has refused a statement as read-only: the connections may lead to a standby, and new ones to the primary. */
	onReadOnly(): void {
		if (performance.now() - this.#renewedAt >= minRenewalIntervalMs) this.renew();
	}

	/** Closes all connections after their running statements. */
	async close(): Promise<void> {
		this.#isClosed = true;
		for (const { reject, timer, endWaiting } of this.#queue.splice(0)) {
			clearTimeout(timer);
			endWaiting();
			reject(closedError());
		}
		await Promise.all(this.#connections.map((connection) => connection.close()));
	}

	#wait(deadline: Deadline, neededMs: number, isRepeated: boolean): Promise<Connection> {
		const endWaiting = isRepeated ? () => undefined : this.options.admission.startWaiting();
		return new Promise((resolve, reject) => {
			const expire = () => {
				this.#queue.splice(this.#queue.indexOf(waiter), 1);
				waiter.endWaiting();
				reject(notSent(deadline));
			};
			const timer = setTimeout(expire, Math.max(0, Math.ceil(remainingMs(deadline) - neededMs)));
			const waiter: Waiter = { resolve, reject, timer, endWaiting };
			this.#queue.push(waiter);
		});
	}

	#release(connection: Connection): void {
		const next = this.#queue.shift();
		if (next === undefined) return void this.#idle.push(connection);
		clearTimeout(next.timer);
		next.endWaiting();
		next.resolve(connection);
	}
}
