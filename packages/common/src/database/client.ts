import type postgres from 'postgres';
import { connect } from './connect.js';
import { ServerClock } from './server-clock.js';

/** A postgres.js client. */
export type Sql = postgres.Sql;

/** A statement that was passed to postgres.js, and the rows that it will return. */
export type PendingStatement<Rows> = Promise<Rows>;

export interface ClientOptions {
	/** `postgres://user:password@host:port/database` */
	url: string;
	/** Shown in pg_stat_activity. */
	applicationName: string;
	/** The server's time limit for a statement, in milliseconds. Default: `defaultStatementTimeoutMs`; 0 means none. */
	statementTimeoutMs?: number;
}

/** It leaves time for a second attempt within the deadline of a caller. */
export const defaultStatementTimeoutMs = 3000;

/** A client with one connection, and the bounds of the server's clock on it. */
export interface Client {
	sql: Sql;
	clock: ServerClock;
}

/**
 * A client with one connection and the settings that requests need. It connects at the first statement.
 *
 * - `max_pipeline: 0`: one query at a time on a connection. With the default, callers waited for ever when backends were
 *   killed. `sql.begin()` does not work on this client, so a request does its work in one statement.
 * - `fetch_types: false`: prevents a catalogue query on every new connection.
 * - `backoff`, `connect_timeout` (seconds): a database that returns is used again within a quarter of a second, and one
 *   that does not respond fails a request in time.
 */
export function openClient(options: ClientOptions): Client {
	const clock = new ServerClock();
	const sql = connect(options.url, {
		max: 1,
		max_pipeline: 0,
		prepare: true,
		fetch_types: false,
		connect_timeout: 2,
		backoff: (attempt: number) => Math.min(0.25, 0.02 * 2 ** attempt),
		idle_timeout: 60,
		max_lifetime: 1800,
		keep_alive: 15,
		onnotice: () => undefined,
		onclose: () => clock.reset(),
		connection: {
			application_name: options.applicationName,
			statement_timeout: options.statementTimeoutMs ?? defaultStatementTimeoutMs,
		},
		// Not in the published types.
	} as postgres.Options<Record<string, postgres.PostgresType>> & { max_pipeline: number });
	return { sql, clock };
}

/** Closes a client at once, even with a running statement. */
export function endClient({ sql }: Client): void {
	void sql.end({ timeout: 0 }).catch(() => undefined);
}
