import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { expect, onTestFinished, vi } from 'vitest';
import { openStatePoll } from './state-poll.js';

const clock = () => performance.now();

test('a connection that takes two seconds to open is waited for', async () => {
	const network = await startTcpProxy(db.url);
	onTestFinished(() => network.close());
	// At least six round trips: the handshake, and the statement that is prepared.
	network.slow(250);
	const poll = openStatePoll({ clock, url: network.through(db.url), applicationName: 'slow', watched: [] });
	onTestFinished(() => poll.close());
	const refresh = () => poll.refresh(60_000).catch(() => undefined);
	await expect.poll(refresh, { timeout: 30_000 }).toBeDefined();
});

test('another history of the database counts as a change of everything, although the connection is the same, as behind a pooler', async () => {
	const onReconnect = vi.fn();
	const poll = openStatePoll({
		clock,
		url: db.url,
		applicationName: 'state poll',
		watched: ['(select version::text from key_ring_version) as keys'],
		onReconnect,
	});
	onTestFinished(() => poll.close());
	const look = async () => {
		const {
			watched: { keys },
			generation,
		} = await poll.refresh(20_000);
		const rows = await db.sql<{ pid: number }[]>`
			select pid from pg_stat_activity
			where datname = current_database() and application_name = 'state poll'`;
		return { keys, generation, reconnects: onReconnect.mock.calls.length, connections: rows.map(({ pid }) => pid) };
	};
	// A poll that takes long replaces its connection, and proves nothing.
	await expect
		.poll(async () => {
			const before = await look();
			// As pg_restore does, which creates the tables again.
			await db.sql.unsafe(`
				drop table if exists former;
				alter table company_contacts_version rename to former;
				create table company_contacts_version (like former including all);
				insert into company_contacts_version select * from former`);
			const after = await look();
			return {
				isSame: String(after.connections) === String(before.connections) && after.keys === before.keys,
				generations: after.generation - before.generation,
				reconnects: after.reconnects - before.reconnects,
			};
		})
		.toEqual({ isSame: true, generations: 1, reconnects: 1 });
});
