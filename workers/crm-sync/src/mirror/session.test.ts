import type { LockHolder } from '@contacts/common/database/advisory-lock.sql.js';
import { urlAs } from '@contacts/migrations/roles.js';
import { createTestDatabase, ownApplications, rolePassword, type TestDatabase } from '@contacts/testing/database.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { openSession, type Session, SessionLostError } from './session.js';
import { readState, saveBlock } from './state.sql.js';

let db: TestDatabase;
let url: string;
let sessions: Session[];

beforeEach(async () => {
	sessions = [];
	db = await createTestDatabase();
	url = urlAs(db.url, 'crm-sync', rolePassword);
});
afterEach(async () => {
	await Promise.all(sessions.map((session) => session.close()));
	await db?.drop();
});

async function open(through = url): Promise<Session> {
	const session = await openSession(through);
	if (session === undefined) throw new Error('another synchroniser works');
	sessions.push(session);
	return session;
}

test('a session that a test leaves open fails its test file: the kit counts it as its own', async () => {
	await open();
	const [session] = await db.sql`
		select application_name ~ ${ownApplications} as is_own from pg_stat_activity
		where datname = current_database() and usename = 'crm_sync_service'`;
	expect(session).toEqual({ is_own: true });
});

describe('a server that is read-only', () => {
	test('is refused: its lock does not keep others from writing elsewhere', async () => {
		const name = new URL(db.url).pathname.slice(1);
		await db.sql.unsafe(`alter database ${name} set default_transaction_read_only = on`);
		await expect(openSession(url)).rejects.toMatchObject({
			name: 'SessionLostError',
			message: 'the database is read-only',
			isReadOnly: true,
		});
		await db.sql.unsafe(`alter database ${name} reset default_transaction_read_only`);
		const session = await open();
		expect((await session.run(readState)).watermark).toBeNull();
	});

	test('ends a session permanently with the first refused write', async () => {
		const session = await open();
		await session.run((sql) => sql`set session characteristics as transaction read only`);
		await expect(session.run((sql) => saveBlock(sql, undefined))).rejects.toThrow(SessionLostError);
		await expect(session.run(readState)).rejects.toThrow(SessionLostError);
	});
});

test('only one session works at a time: another one learns who holds the lock', async () => {
	const holders: (LockHolder | undefined)[] = [];
	const other = await open(db.url);
	expect(await openSession(url, (holder) => holders.push(holder))).toBe(undefined);
	expect(holders).toEqual([{ pid: expect.any(Number), role: 'postgres', application: 'crm-sync' }]);
	await other.close();
	await open();
});

test('a connection that does not respond ends the session', async () => {
	const proxy = await startTcpProxy(url);
	onTestFinished(() => proxy.close());
	const session = await open(proxy.through(url));
	proxy.holdBack();
	await expect(session.run(readState, { timeoutMs: 500 })).rejects.toThrow(
		new SessionLostError('the database does not respond'),
	);
	await expect(session.run(readState)).rejects.toThrow(SessionLostError);
	proxy.close();
});

test('the server ends the session, and with it the lock, within half a minute after the machine of its client has died', async () => {
	const session = await open();
	const settings = await session.run(
		(sql) => sql`select name, setting::int as value from pg_settings where name ~ '^tcp_' order by name`,
	);
	expect([...settings]).toEqual([
		{ name: 'tcp_keepalives_count', value: 3 },
		{ name: 'tcp_keepalives_idle', value: 15 },
		{ name: 'tcp_keepalives_interval', value: 5 },
		{ name: 'tcp_user_timeout', value: 30_000 },
	]);
});
