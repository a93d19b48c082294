import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { database as db, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { expect, onTestFinished } from 'vitest';

// What patches/ repairs in the connections of postgres.js and a whole database does not show reliably, as it takes an event
// at one certain moment. The rest of it is guarded by database.test.ts.

/** A client with one connection, and the sockets that it has had. */
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

test('a transaction that goes on after its connection was lost fails, and does not end the process', async () => {
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
	await db.sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'transaction'`;
	await failed;
	goOn();
	for (let turns = 0; turns < 5; turns++) await nextTurn();
	expect(uncaught).toEqual([]);
});

test('a statement that was not sent yet when its connection closed does not spoil the next connection', async () => {
	const { sql, sockets } = await openOne();

	const lost = sql`select 2`.then(
		() => 'answered',
		(error: { code: string }) => error.code,
	);
	// Now it has been handed to the connection, which would write it in the next turn of the event loop.
	await Promise.resolve();
	sockets[0]?.emit('close', false);
	sockets[0]?.destroy();
	expect(await lost).toBe('CONNECTION_CLOSED');
	expect(await sql`select 3 as three`).toEqual([{ three: 3 }]);
	expect(sockets).toHaveLength(2);
});

test('a statement that is handed to a connection between its error and its end fails, and is not forgotten', async () => {
	const { sql, sockets } = await openOne();

	// Of several connections that are reset at once, the first one's error already makes callers ask again.
	const [socket] = sockets;
	socket?.emit('error', Object.assign(new Error('reset'), { code: 'ECONNRESET' }));
	const lost = sql`select 2`.then(
		() => 'answered',
		(error: { code: string }) => error.code,
	);
	await Promise.resolve();
	socket?.emit('close', true);
	socket?.destroy();
	expect(await lost).toBe('CONNECTION_CLOSED');
	expect(await sql`select 3 as three`).toEqual([{ three: 3 }]);
});

test('a COPY whose last rows are refused ends, with the error', async () => {
	const { sql } = await openOne();
	await sql`create temporary table refused (value int check (value < 5))`;
	const rows = await sql`copy refused from stdin`.writable();
	await expect(pipeline(Readable.from([Buffer.from('1\n9\n')]), rows)).rejects.toMatchObject({ code: '23514' });
	expect(await sql`select 3 as three`).toEqual([{ three: 3 }]);
});

test('after a COPY that was read slowly the next statement is answered', async () => {
	const { sql } = await openOne();
	for (let round = 0; round < 20; round++) {
		const rows = await sql`copy (select repeat('x', 1000) from generate_series(1, 500)) to stdout`.readable();
		let bytes = 0;
		for await (const piece of rows) {
			bytes += piece.length;
			await nextTurn();
		}
		expect(bytes).toBe(500_500);
		expect(await sql`select 3 as three`).toEqual([{ three: 3 }]);
	}
});
