import { addProject } from '@contacts/testing/app.js';
import { revokeKey, setProjectEnabled } from '@contacts/testing/projects.js';
import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';
import { idOf, never, open, seen } from './testing/observed-key-ring.js';

describe('a change is seen within a second', () => {
	test('a new key, a disabled project, one that is enabled again, a revoked key', async () => {
		const { ring } = await open();
		expect(ring.find('new', 'new-key')).toBeUndefined();
		await addProject(db.sql, 'new', 'new-key');
		expect(await seen(ring, 'new', true)).toBeLessThan(1000);
		expect(ring.find('new', 'new-key')?.code).toBe('new');
		await setProjectEnabled(db.sql, 'new', false);
		expect(await seen(ring, 'new', false)).toBeLessThan(1000);
		await setProjectEnabled(db.sql, 'new', true);
		expect(await seen(ring, 'new', true)).toBeLessThan(1000);
		await revokeKey(db.sql, await idOf('new'));
		expect(await seen(ring, 'new', false)).toBeLessThan(1000);
	});

	test('even if the connection of the poll was killed just before', async () => {
		await addProject(db.sql, 'killed', 'killed-key');
		const { ring, applicationName } = await open();
		const id = await idOf('killed');
		const kill = () => db.sql`
			select pg_terminate_backend(pid) from pg_stat_activity
			where datname = current_database() and application_name = ${applicationName}`;
		for (let round = 0; round < 3; round++) {
			await db.sql`update api_keys set revoked_at = null where id = ${id}`;
			await seen(ring, 'killed', true);
			// It may still be reconnecting after the last time.
			await expect.poll(kill).not.toHaveLength(0);
			await revokeKey(db.sql, id);
			expect(await seen(ring, 'killed', false)).toBeLessThan(1000);
		}
	});

	test.each<[string, (proxy: TcpProxy) => unknown]>([
		['is cut', async (proxy) => [proxy.cut(), await proxy.restore()]],
		['stalls for ever, while new ones work', async (proxy) => [proxy.blackhole(), await proxy.restore()]],
		['is held back, while new ones work', (proxy) => proxy.holdBack()],
	])('even if the connection of the poll %s at the moment of the change', async (how, disturb) => {
		const project = `disturbed-${how.length}`;
		await addProject(db.sql, project, `${project}-key`);
		const proxy = await startTcpProxy(db.url);
		onTestFinished(() => proxy.close());
		const { ring } = await open({ url: proxy.through(db.url) });
		const id = await idOf(project);
		for (let round = 0; round < 3; round++) {
			await db.sql`update api_keys set revoked_at = null where id = ${id}`;
			await seen(ring, project, true);
			await disturb(proxy);
			await revokeKey(db.sql, id);
			expect(await seen(ring, project, false)).toBeLessThan(1000);
		}
	});

	test('even if it was made between the two reads of a refresh', async () => {
		await addProject(db.sql, 'between', 'between-key');
		const watched = await open({ intervalMs: never });
		const id = await idOf('between');
		await addProject(db.sql, 'another', 'another-key');
		const { loads } = watched;
		watched.between = async () => watched.loads === loads && (await revokeKey(db.sql, id));
		await watched.refresh();
		expect(watched.loads).toBe(loads + 1);
		await watched.refresh();
		expect(watched.ring.find('another', 'another-key')).toBeDefined();
		expect(watched.ring.find('between', 'between-key')).toBeUndefined();
	});
});

describe('the key ring', () => {
	test('checks right and wrong keys without any statement', async () => {
		await addProject(db.sql, 'asked', 'asked-key');
		const watched = await open({ intervalMs: never });
		const { polls, loads } = watched;
		for (let tries = 0; tries < 1000; tries++) {
			expect(watched.ring.find('asked', 'asked-key')?.code).toBe('asked');
			expect(watched.ring.find('asked', `wrong ${tries}`)).toBeUndefined();
			expect(watched.ring.find(`unknown ${tries}`, 'asked-key')).toBeUndefined();
		}
		await watched.refresh();
		expect([watched.polls, watched.loads]).toEqual([polls + 1, loads]);
	});

	test('contains no key that is limited to the other service, expired, revoked, or of a disabled project', async () => {
		await addProject(db.sql, 'here', 'here-key', { service: 'company-contacts' });
		await addProject(db.sql, 'both', 'both-key');
		await addProject(db.sql, 'twin', 'both-key');
		await addProject(db.sql, 'there', 'there-key', { service: 'personal-contacts' });
		await addProject(db.sql, 'expired', 'expired-key', { expiresAt: new Date(Date.now() - 1) });
		await addProject(db.sql, 'revoked', 'revoked-key');
		await revokeKey(db.sql, await idOf('revoked'));
		await addProject(db.sql, 'disabled', 'disabled-key');
		await setProjectEnabled(db.sql, 'disabled', false);
		const { ring } = await open();
		const codes = ['here', 'both', 'there', 'expired', 'revoked', 'disabled'];
		expect(codes.filter((code) => ring.find(code, `${code}-key`))).toEqual(['here', 'both']);
		expect(ring.find('here', 'both-key')).toBeUndefined();
		expect(ring.find('twin', 'both-key')?.code).toBe('twin');
	});

	test('knows why the newest 10,000 rejected keys are rejected, and no more of them', async () => {
		await addProject(db.sql, 'rotated', 'first-key');
		await db.sql`
			insert into api_keys (project_id, hash)
			select id, sha256(('rotated-' || n)::bytea) from projects, generate_series(1, 10000) n
			where code = 'rotated' order by n`;
		await db.sql`update api_keys set revoked_at = now() where project_id = (select id from projects where code = 'rotated')`;
		const { ring } = await open({ intervalMs: never });
		const reasons = ['first-key', 'rotated-1', 'rotated-10000'].map((key) => ring.findReason('rotated', key));
		expect(reasons).toEqual(['unknown_key', 'revoked_key', 'revoked_key']);
	});

	test('rejects a key from the moment at which it expires, without a query', async () => {
		let now = Date.now();
		const expiresAt = new Date(now + 3_600_000);
		await addProject(db.sql, 'expiring', 'expiring-key', { expiresAt });
		const { ring } = await open({ intervalMs: never, now: () => now });
		now = expiresAt.getTime() - 1;
		expect(ring.find('expiring', 'expiring-key')).toBeDefined();
		now = expiresAt.getTime();
		expect(ring.find('expiring', 'expiring-key')).toBeUndefined();
	});

	test('accepts a key again that seemed to have expired while the clock was wrong', async () => {
		let now = Date.now();
		await addProject(db.sql, 'jump', 'jump-key', { expiresAt: new Date(now + 3_600_000) });
		const { ring } = await open({ intervalMs: never, now: () => now });
		now += 7_200_000;
		expect(ring.find('jump', 'jump-key')).toBeUndefined();
		now -= 7_200_000;
		expect(ring.find('jump', 'jump-key')?.code).toBe('jump');
	});

	test('contains a key that had expired when it was read, unless long ago: the database’s clock may be set back', async () => {
		let now = Date.now();
		const day = 86_400_000;
		for (const [code, days] of [
			['month', 29],
			['year', 31],
		] as const)
			await addProject(db.sql, code, `${code}-key`, { expiresAt: new Date(now - days * day) });
		const { ring } = await open({ intervalMs: never, now: () => now });
		expect(ring.find('month', 'month-key')).toBeUndefined();
		expect(ring.liveKeys().map(({ code }) => code)).not.toContain('month');
		now -= 40 * day;
		const project = ring.find('month', 'month-key');
		if (project === undefined) return expect.unreachable('it is refused');
		expect([ring.isLive(project), ring.liveKeys().some(({ code }) => code === 'month')]).toEqual([true, true]);
		expect(ring.find('year', 'year-key')).toBeUndefined();
		now += 40 * day;
		expect(ring.isLive(project)).toBe(false);
	});
});
