import type { Sql } from './client.js';
import { connectSingle } from './connect.js';
import { remainingMs, startDeadline, timedOut, withTimeout } from './deadline.js';
import { closedError, DeadlineError } from './errors.js';
import type { ConnectionOptions } from './find-primary.js';

export interface QuestionOptions {
	/** `postgres://user:password@host:port/database` */
	url: string;
	/** Shown in pg_stat_activity. */
	applicationName: string;
	/** It returns one row. */
	statement: string;
}

interface Answer<Row> {
	row: Row;
	/** The connection that it came over, for what follows. */
	sql: Sql;
	/** Whether it is another connection than that of the response before. */
	isReconnected: boolean;
}

/** A statement without a response after this time is also sent over a fresh connection, so that it still has one within a second. */
const hedgeAfterMs = 400;

/** One statement that is sent again and again, over a connection that requests can't occupy. */
export class HedgedQuestion<Row> {
	/** Clients with one connection each, which are closed once they have lost it. */
	readonly #open = new Set<Sql>();
	/** The one that responded last. */
	#connection: Sql | undefined;
	#isClosed = false;

	/** @param timeoutMs the maximum time of a response, and of a connection to be opened */
	constructor(
		readonly options: QuestionOptions,
		readonly timeoutMs: number,
	) {}

	/**
	 * Returns the first response: over the connection, or over a fresh one if that is lost or late. Late ones stay until one
	 * responds, because the database, the network or this machine may only be slow.
	 */
	async ask(): Promise<Answer<Row>> {
		const deadline = startDeadline(this.timeoutMs);
		const attempts = this.#connection === undefined ? [] : [this.#send(this.#connection)];
		let winner: Sql | undefined;
		try {
			for (let timeoutMs = hedgeAfterMs, hasFresh = false; ; hasFresh = true) {
				const answer = await withTimeout(Promise.any(attempts), Math.min(timeoutMs, remainingMs(deadline))).catch(
					({ errors }: AggregateError): typeof timedOut => {
						// Unless a fresh connection has failed, the statement is sent again at once.
						if (hasFresh) throw errors.at(-1);
						return timedOut;
					},
				);
				if (answer !== timedOut) {
					winner = answer.sql;
					const isReconnected = winner !== this.#connection;
					this.#connection = winner;
					return { ...answer, isReconnected };
				}
				if (this.#isClosed) throw closedError();
				if (remainingMs(deadline) <= 0) throw new DeadlineError(this.timeoutMs, true);
				// A fresh one may be lost in the network too.
				if (hasFresh) timeoutMs *= 2;
				attempts.push(this.#send(this.#connect()));
			}
		} finally {
			for (const each of this.#open) if (each !== winner) this.#drop(each);
		}
	}

	/** Closes the connection: the next question opens another one. */
	reconnect(): void {
		if (this.#connection !== undefined) this.#drop(this.#connection);
	}

	async close(): Promise<void> {
		this.#isClosed = true;
		await Promise.all([...this.#open].map((sql) => sql.end({ timeout: 1 })));
	}

	#connect(): Sql {
		const { url, applicationName } = this.options;
		const sql: Sql = connectSingle(url, {
			connect_timeout: this.timeoutMs / 1000,
			backoff: () => 0.05,
			connection: { application_name: applicationName, statement_timeout: this.timeoutMs },
			onclose: () => this.#drop(sql),
		} as ConnectionOptions);
		this.#open.add(sql);
		return sql;
	}

	#drop(lost: Sql): void {
		if (this.#connection === lost) this.#connection = undefined;
		if (this.#open.delete(lost)) void lost.end({ timeout: 0 }).catch(() => undefined);
	}

	async #send(sql: Sql): Promise<{ row: Row; sql: Sql }> {
		const [row] = await sql.unsafe<Row[]>(this.options.statement, [], { prepare: true });
		return { row: row as Row, sql };
	}
}
