import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { database as db, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { expect, onTestFinished, vi } from 'vitest';

// Guards the fixes of postgres.js in patches/ that need an event at an exact moment, or one connection. database-outages.test.ts
// and tests/system/managed-postgres.test.ts guard the other fixes.

/** A client with one connection, and all sockets that it has opened. */
async function openOne(): Promise<{ sql: postgres.Sql; sockets: Socket[] }> {
	const sockets: Socket[] = [];
	const sql = postgres(db.url, {
		max: 1,
		fetch_types: false,
		connect_timeout: 2,
		async socket({ host, port }: { host: string[]; port: number[] }) {
			const socket = connect({ host: String(host[0]), port: Number(port[0]) });
			await once(socket, 'connect');
			sockets.push(socket);
			return socket;
		},
		// Not in the published types.
	} as postgres.Options<Record<string, postgres.PostgresType>>);
	onTestFinished(() => sql.end({ timeout: 0 }));
	await sql`select 1`;
	return { sql, sockets };
}

test('a transaction that continues after its connection was lost fails without ending the process', async () => {
	const uncaught: unknown[] = [];
	const note = (error: unknown) => void uncaught.push(error);
	process.on('uncaughtException', note);
	onTestFinished(() => void process.off('uncaughtException', note));
	const sql = postgres(db.url, { max: 1, fetch_types: false, connection: { application_name: 'transaction' } });
	onTestFinished(() => sql.end({ timeout: 0 }));

	let goOn = () => {};
	const held = new Promise<void>((resolve) => {
		goOn = resolve;
	});
	let begun = false;
	const failed = expect(
		sql.begin(async (transaction) => {
			await transaction`select 1`;
			begun = true;
			await held;
			await transaction`select 2`;
		}),
	).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' });
	await expect.poll(() => begun).toBe(true);
	await db.sql`
		select pg_terminate_backend(pid) from pg_stat_activity
		where datname = current_database() and application_name = 'transaction'`;
	await failed;
	goOn();
	for (let turns = 0; turns < 5; turns++) await nextTurn();
	expect(uncaught).toEqual([]);
});

test('a statement that was not sent before its connection closed does not break the next connection', async () => {
	const { sql, sockets } = await openOne();

	const lost = sql`select 2`.then(
		() => 'responded',
		(error: { code: string }) => error.code,
	);
	// The connection now holds the statement, and would write it in the next turn of the event loop.
	await Promise.resolve();
	sockets[0]?.emit('close', false);
	sockets[0]?.destroy();
	expect(await lost).toBe('CONNECTION_CLOSED');
	expect(await sql`select 3 as three`).toEqual([{ three: 3 }]);
	expect(sockets).toHaveLength(2);
});

test('a statement that reaches a connection between its error and its close fails and never hangs', async () => {
	const { sql, sockets } = await openOne();

	// When several connections are reset at once, the first error already makes callers retry.
	const [socket] = sockets;
	socket?.emit('error', Object.assign(new Error('reset'), { code: 'ECONNRESET' }));
	const lost = sql`select 2`.then(
		() => 'responded',
		(error: { code: string }) => error.code,
	);
	await Promise.resolve();
	socket?.emit('close', true);
	socket?.destroy();
	expect(await lost).toBe('CONNECTION_CLOSED');
	expect(await sql`select 3 as three`).toEqual([{ three: 3 }]);
});

test('after an error in the fourth row, the next statement on the connection gets its rows and no holes in front', async () => {
	const { sql, sockets } = await openOne();
	await expect(sql`select 1 / (4 - i) as quotient from generate_series(1, 9) as i`).rejects.toThrow();
	const rows = await sql`select i from generate_series(1, 2) as i`;
	expect([...rows]).toEqual([{ i: 1 }, { i: 2 }]);
	expect(sockets).toHaveLength(1);
});

test('variables of libpq, which are for other programs, change nothing', async () => {
	vi.stubEnv('PGTARGETSESSIONATTRS', 'standby');
	vi.stubEnv('PGSSL', 'require');
	onTestFinished(() => void vi.unstubAllEnvs());
	const sql = postgres(db.url, { max: 1 });
	onTestFinished(() => sql.end({ timeout: 0 }));
	expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
});

test('a statement that is prepared again gets the same parameters', async () => {
	const { sql, sockets } = await openOne();
	const ask = () => sql`select ${true}::boolean as yes, ${'{"a":1}'}::text::json as json`;
	await ask();
	// As behind a pooler, which leads to a server connection that does not have the statement.
	await sql.unsafe('deallocate all').simple();
	expect(await ask()).toEqual([{ yes: true, json: { a: 1 } }]);
	expect(sockets).toHaveLength(1);
});

test('a statement of text that failed is forgotten', async () => {
	setFlagsFromString('--expose-gc');
	const collect = runInNewContext('gc') as () => void;
	const { sql } = await openOne();
	const failed = (): WeakRef<object> => {
		const statement = sql.unsafe('select 1 / 0');
		statement.catch(() => undefined);
		return new WeakRef((statement as unknown as { strings: string[] }).strings);
	};
	const strings = failed();
	await sql`select 1`;
	await expect
		.poll(() => {
			collect();
			return strings.deref();
		})
		.toBeUndefined();
});
