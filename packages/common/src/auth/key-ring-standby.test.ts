import { addProject } from '@contacts/testing/app.js';
import { database as db, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { openDatabase } from '../database/database.js';
import { openStatePoll } from '../database/state-poll.js';
import { openKeyRing } from './key-ring.js';

test('on a read-only server the uses of keys are kept, and no connection is replaced, until it can be written', async () => {
	await addProject(db.sql, 'partner', 'partner-key');
	const role = new URL(db.url).pathname.slice(1);
	await db.sql.unsafe(`
		create role ${role} login superuser password 'reader';
		alter role ${role} set default_transaction_read_only = on`);
	onTestFinished(() => db.sql.unsafe(`drop role ${role}`).then(() => undefined));
	const url = Object.assign(new URL(db.url), { username: role, password: 'reader' }).href;
	const database = openDatabase({ url, applicationName: 'replica', poolSize: 3 });
	onTestFinished(() => database.close());
	const poll = openStatePoll({ url, applicationName: 'poll', watched: ['keys'] });
	onTestFinished(() => poll.close());
	const ring = await openKeyRing({ poll, database, service: 'company-contacts' }, () => false);
	onTestFinished(() => ring.stop());
	/** Sends a statement over each connection. */
	const onEach = <Row>(statement: string) =>
		Promise.all([1, 2, 3].map(() => database.query((sql) => sql.unsafe<Row[]>(statement))));
	const backends = async () => {
		const rows = await onEach<{ pid: number }>('select pg_backend_pid() as pid');
		return rows.map(([row]) => row?.pid).sort();
	};
	const before = await backends();
	expect(ring.find('partner', 'partner-key')?.code).toBe('partner');
	await ring.flushUses();
	expect(await backends()).toEqual(before);
	expect(await db.sql`select from api_key_uses`).toEqual([]);

	// As when a standby is promoted: its connections stay.
	await onEach('set default_transaction_read_only = off');
	await ring.flushUses();
	expect(await db.sql`select from api_key_uses`).toHaveLength(1);
	expect(await backends()).toEqual(before);
});
