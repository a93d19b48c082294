import type { Sql } from '@contacts/common/database/client.js';
import postgres from 'postgres';

/** Any number will do, as long as nothing else in the same database takes it. */
const synchroniserLock = 7_140_233_981;

/** The one connection of the synchroniser that works. It holds the lock, so whatever it writes, nobody else writes. */
export interface Session {
	/** @throws SessionLost once the connection is gone: with it went the lock */
	run<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
	close(): Promise<void>;
}

/** The connection was lost, and perhaps another synchroniser works now: begin anew. */
export class SessionLost extends Error {
	override name = 'SessionLost';
}

/** @returns undefined where another synchroniser works on this database */
export async function openSession(url: string): Promise<Session | undefined> {
	let open = false;
	let lost = false;
	const sql = postgres(url, {
		max: 1,
		fetch_types: false,
		connect_timeout: 5,
		idle_timeout: 0,
		max_lifetime: null,
		keep_alive: 15,
		onnotice: () => undefined,
		// The client would reconnect by itself and go on without the lock.
		onclose: () => {
			lost = open;
		},
		connection: { application_name: 'company-contacts-sync', statement_timeout: 300_000 },
	});
	try {
		const [row] = await sql<{ locked: boolean }[]>`select pg_try_advisory_lock(${synchroniserLock}::bigint) as locked`;
		open = true;
		if (row?.locked) return { run, close: () => sql.end({ timeout: 5 }) };
	} catch (error) {
		await sql.end({ timeout: 1 });
		throw error;
	}
	await sql.end({ timeout: 5 });
	return undefined;

	async function run<T>(work: (client: Sql) => Promise<T>): Promise<T> {
		if (lost) throw new SessionLost();
		try {
			return await work(sql);
		} catch (error) {
			throw lost ? new SessionLost('the connection to the database was lost', { cause: error }) : error;
		}
	}
}
