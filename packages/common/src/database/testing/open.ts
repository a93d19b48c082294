import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { type Database, type DatabaseOptions, openDatabase } from '../database.js';
import { DatabaseError, errorCode } from '../errors.js';

/** A database for this test alone, known by its application name. */
export function open(applicationName: string, options: Partial<DatabaseOptions> = {}): Database {
	const database = openDatabase({
		url: db.url,
		applicationName,
		poolSize: 1,
		clock: () => performance.now(),
		...options,
	});
	onTestFinished(() => database.close());
	return database;
}

/** The same through a proxy. */
export async function openThroughProxy(
	applicationName: string,
	options: Partial<DatabaseOptions> = {},
	url = db.url,
): Promise<{ proxy: TcpProxy; database: Database }> {
	const proxy = await startTcpProxy(url);
	onTestFinished(() => proxy.close());
	return { proxy, database: open(applicationName, { url: proxy.through(url), ...options }) };
}

export const respond = async (database: Database) => {
	const rows = await database.query((sql) => sql<{ pid: number }[]>`select pg_backend_pid() as pid`);
	return rows[0]?.pid;
};
export const sleep = (database: Database, seconds = 10) =>
	database.query((sql) => sql`select pg_sleep(${seconds}::float8)`);
export const causeOf = (promise: Promise<unknown>) =>
	promise.then(
		() => expect.unreachable('it succeeded'),
		(error: unknown) => {
			expect(error).toBeInstanceOf(DatabaseError);
			return errorCode((error as Error).cause);
		},
	);
export const active = async (applicationName: string) =>
	(
		await db.sql`
			select from pg_stat_activity
			where datname = current_database() and application_name = ${applicationName} and state = 'active'`
	).length;
export const kill = (applicationName: string) =>
	db.sql`
		select pg_terminate_backend(pid) from pg_stat_activity
		where datname = current_database() and application_name = ${applicationName}`;

/** Holds an advisory lock for which a statement can wait. @returns a function that releases it */
export async function holdLock(key: number): Promise<() => Promise<void>> {
	const session = await db.sql.reserve();
	await session`select pg_advisory_lock(${key})`;
	return async () => {
		await session`select pg_advisory_unlock(${key})`;
		session.release();
	};
}
