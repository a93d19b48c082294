import type { Turn } from './admission.js';
import { type Client, type ClientOptions, endClient, openClient, type PendingStatement, type Sql } from './client.js';
import { DeadlineError, judge } from './errors.js';

/** A statement without a response after this time is also sent over another connection. Few statements take this long. */
const hedgeAfterMs = 1000;

/** The interval between two checks whether a statement may be hedged. */
const hedgeRetryMs = 100;

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

	/** Waits for a response. Without one in time, the connection is closed. */
	async respond<Rows>(pending: PromiseLike<Rows>, timeoutMs: number, deadlineMs = timeoutMs): Promise<Rows> {
		let timer: NodeJS.Timeout | undefined;
		const late = new Promise<never>((_, reject) => {
			timer = setTimeout(() => {
				this.replace();
				reject(new DeadlineError(deadlineMs, true));
			}, Math.ceil(timeoutMs));
		});
		try {
			return await Promise.race([pending, late]);
		} finally {
			clearTimeout(timer);
		}
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
	#hedging = false;
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
	 * Sends a statement that may be executed twice. It is sent once more if its connection was lost. Without a response after
	 * a second it is also sent over another connection, and the first response counts.
	 *
	 * @param isOnNew whether to open a new connection for it
	 */
	async query<Rows>(turn: Turn, statement: (sql: Sql) => PendingStatement<Rows>, isOnNew = false): Promise<Rows> {
		const connection = await this.acquire(turn);
		if (isOnNew) connection.replace();
		try {
			return await this.#send(connection, turn, statement).catch((error: unknown) => {
				const { lost, readOnly } = judge(error);
				if (readOnly) this.replaceAll(connection);
				if (!lost && !readOnly) throw error;
				return this.#send(connection, turn, statement);
			});
		} finally {
			this.release(connection);
		}
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

	/** Closes all connections after their running statements, within 2 seconds. An unresponsive one takes this long. */
	async close(): Promise<void> {
		this.#closed = true;
		for (const { reject, timer } of this.#queue.splice(0)) {
			clearTimeout(timer);
			reject(closedError());
		}
		await Promise.all([...this.#connections].map(({ client }) => client.sql.end({ timeout: 2 })));
	}

	/**
	 * If the other connection responds first, the connection is unresponsive and is replaced by it. If not, the statement is
	 * just slow. Only one statement at a time is hedged, because a slow database must not get twice the work.
	 */
	async #send<Rows>(
		connection: Connection,
		{ askedAt, until }: Turn,
		statement: (sql: Sql) => PendingStatement<Rows>,
	): Promise<Rows> {
		let hedgeTimer: NodeJS.Timeout | undefined;
		let other: Client | undefined;
		const response = new Promise<Rows>((resolve, reject) => {
			const hedge = () => {
				if (this.#hedging) {
					hedgeTimer = setTimeout(hedge, hedgeRetryMs);
					return;
				}
				this.#hedging = true;
				const client = openClient(this.options);
				other = client;
				// A failure of the copy is ignored.
				statement(client.sql).then(
					(rows) => {
						if (other !== client) return;
						other = undefined;
						this.#hedging = false;
						connection.replace(client);
						resolve(rows);
					},
					() => undefined,
				);
			};
			hedgeTimer = setTimeout(hedge, hedgeAfterMs);
			statement(connection.client.sql).then(resolve, reject);
		});
		try {
			return await connection.respond(response, until - performance.now(), until - askedAt);
		} finally {
			clearTimeout(hedgeTimer);
			if (other !== undefined) {
				endClient(other);
				other = undefined;
				this.#hedging = false;
			}
		}
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
