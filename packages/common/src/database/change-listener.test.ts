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
