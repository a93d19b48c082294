import { addProject } from '@contacts/testing/app.js';
import { createTestDatabase } from '@contacts/testing/database.js';
import { revokeKey } from '@contacts/testing/projects.js';
import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { startDeadline } from '../database/deadline.js';
import { DatabaseError, errorCode } from '../database/errors.js';
import type { KeyRing } from './key-ring.js';
import { idOf, never, open, seen } from './testing/observed-key-ring.js';

async function startProxy(): Promise<{ proxy: TcpProxy; url: string }> {
	const proxy = await startTcpProxy(db.url);
	onTestFinished(() => proxy.close());
	return { proxy, url: proxy.through(db.url) };
}

const ageOf = ({ refreshedAt = 0 }: KeyRing) => Date.now() - refreshedAt;

describe('while the database is unreachable', () => {
	test('at the start, no key can be checked, and the return of the database is reported once', async () => {
		await addProject(db.sql, 'early', 'early-key');
		const { proxy, url } = await startProxy();
		proxy.cut();
		const onStateChange = vi.fn();
		const { ring, refresh } = await open({ url, intervalMs: 20, onStateChange });
		expect(() => ring.find('early', 'early-key')).toThrow(DatabaseError);
		expect([ring.refreshedAt, ring.isConfirmed]).toEqual([undefined, false]);
		for (let tries = 0; tries < 3; tries++) await expect(refresh()).rejects.toBeInstanceOf(DatabaseError);
		expect(onStateChange.mock.calls).toEqual([[expect.any(DatabaseError)]]);

		await proxy.restore();
		await expect.poll(() => onStateChange.mock.calls.length).toBe(2);
		expect(onStateChange.mock.lastCall).toEqual([undefined]);
		expect(ring.find('early', 'early-key')?.code).toBe('early');
		expect(ring.find('early', 'wrong')).toBeUndefined();
	});

	test('after the start, the keys stay valid, their age grows, and changes are seen when it returns', async () => {
		await addProject(db.sql, 'later', 'later-key');
		const { proxy, url } = await startProxy();
		const onStateChange = vi.fn();
		const { ring } = await open({ url, intervalMs: 20, onStateChange });
		proxy.cut();
		await expect.poll(() => onStateChange.mock.calls).toEqual([[expect.any(DatabaseError)]]);
		const id = await idOf('later');
		await revokeKey(db.sql, id);
		await expect.poll(() => ageOf(ring)).toBeGreaterThan(200);
		expect(ring.find('later', 'later-key')).toBeDefined();
		await expect.poll(() => ring.isConfirmed).toBe(false);
		await expect(ring.confirm(startDeadline(20_000))).rejects.toBeInstanceOf(DatabaseError);

		await proxy.restore();
		expect(await seen(ring, 'later', false)).toBeLessThan(1000);
		await expect.poll(() => onStateChange.mock.calls.slice(1)).toEqual([[undefined]]);
		await expect.poll(() => ageOf(ring)).toBeLessThan(1000);
	});

	test('the poll reconnects by itself afterwards', async () => {
		await addProject(db.sql, 'unheard', 'unheard-key');
		const { proxy, url } = await startProxy();
		const { ring, refresh } = await open({ url, intervalMs: never });
		proxy.cut();
		await revokeKey(db.sql, await idOf('unheard'));
		await expect(refresh()).rejects.toBeInstanceOf(DatabaseError);
		await proxy.restore();
		expect(await seen(ring, 'unheard', false)).toBeLessThan(1000);
	});

	test('all keys are read again afterwards, even if a server that takes over has other keys of the same version', async () => {
		await addProject(db.sql, 'taken', 'taken-key');
		const { proxy, url } = await startProxy();
		const { ring } = await open({ url });
		expect(ring.find('taken', 'taken-key')).toBeDefined();
		proxy.cut();
		await revokeKey(db.sql, await idOf('taken'));
		await db.sql`update key_ring_version set version = version - 1`;
		await proxy.restore();
		await seen(ring, 'taken', false);
		await db.sql`update key_ring_version set version = version + 1`;
	});

	test('a stop waits only briefly for its last statement', async () => {
		await addProject(db.sql, 'last', 'last-key');
		const { proxy, url } = await startProxy();
		const { ring } = await open({ url, intervalMs: never });
		const { ring: other } = await open({ url, intervalMs: never });
		for (const each of [ring, other]) each.find('last', 'last-key');
		proxy.blackhole();
		const flushed = other.flushUses().then(() => 'flushed');
		expect(await Promise.race([flushed, ring.stop().then(() => 'stopped')])).toBe('stopped');
	});

	test('a database that rejects the configuration makes the start fail', async () => {
		const elsewhere = (change: Partial<URL>) => Object.assign(new URL(db.url), change).href;
		const empty = await createTestDatabase('template0');
		onTestFinished(() => empty.drop());
		const cause = (url: string) =>
			open({ url }).then(
				() => expect.unreachable('it was opened'),
				(error: unknown) => errorCode((error as DatabaseError).cause),
			);
		expect(await cause(elsewhere({ password: 'wrong' }))).toBe('28P01');
		expect(await cause(elsewhere({ pathname: '/no_such_database' }))).toBe('3D000');
		expect(await cause(empty.url)).toBe('42P01');
	});
});
