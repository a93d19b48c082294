import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { database as db, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { openDatabase } from './database.js';

test('a listener reports each change and its own reconnection, and then all reads use new connections', async () => {
	const database = openDatabase({ url: db.url, applicationName: 'listening', poolSize: 1 });
	let told = 0;
	const listener = database.listenForChanges('something_changed', () => told++);
	onTestFinished(async () => {
		await listener.stop();
		await database.close();
	});
	/** The server's processes for statements and cursors. */
	const backends = async () => {
		const [row] = await database.query((sql) => sql<{ pid: number }[]>`select pg_backend_pid() as pid`);
		let reading = '';
		await database.readInBatches(
			(sql) => sql`select pg_backend_pid()`,
			1,
			async (rows) => {
				reading = String(rows[0]?.[0]);
				return true;
			},
		);
		return [row?.pid, Number(reading)];
	};
	await expect.poll(() => listener.current).toBe(true);
	const before = await backends();
	expect(await backends()).toEqual(before);

	const toldBefore = told;
	await db.sql`notify something_changed`;
	await expect.poll(() => told).toBe(toldBefore + 1);

	const [listening] = await db.sql<{ pid: number }[]>`
		select pid from pg_stat_activity
		where datname = current_database() and application_name = 'listening' and not pid = any (${`{${before.join()}}`}::text::int[])`;
	await db.sql`select pg_terminate_backend(${listening?.pid ?? 0})`;
	// One call for the disconnection, and one for the reconnection.
	await expect.poll(() => told).toBe(toldBefore + 3);
	expect(listener.current).toBe(true);
	const after = await backends();
	for (const pid of before) expect(after).not.toContain(pid);
});

test('a connection on which LISTEN gets no response is replaced', async () => {
	let unanswered = 0;
	const { hostname, port } = new URL(db.url);
	const server = createServer((client) => {
		const target = connect({ host: hostname, port: Number(port) });
		for (const socket of [client, target]) socket.on('error', () => undefined);
		client.on('close', () => target.destroy());
		target.pipe(client);
		client.on('data', (data) => {
			if (unanswered === 0 && data.includes('listen "')) unanswered++;
			else target.write(data);
		});
	}).listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port: proxyPort } = server.address() as { port: number };
	const url = Object.assign(new URL(db.url), { hostname: '127.0.0.1', port: String(proxyPort) }).href;
	const database = openDatabase({ url, applicationName: 'unanswered', poolSize: 1 });
	onTestFinished(async () => {
		await database.close();
		server.close();
	});
	const listener = database.listenForChanges('something_changed', () => undefined);
	await expect.poll(() => listener.current).toBe(true);
	expect(unanswered).toBe(1);
});
