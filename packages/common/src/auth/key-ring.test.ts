import { addProject } from '@contacts/testing/app.js';
import { createTestDatabase } from '@contacts/testing/database.js';
import { watchDelays } from '@contacts/testing/machine-delays.js';
import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished, vi } from 'vitest';
import type { ChangeSubscription } from '../database/change-listener.js';
import { type Database, openDatabase } from '../database/database.js';
import { DatabaseError, errorCode, isRefusal } from '../database/errors.js';
import { type KeyRing, type KeyRingOptions, openKeyRing } from './authenticate.js';
import { revokeKey, setProjectEnabled } from './projects.sql.js';

let nextRing = 1;

/** As in production. */
const isTemporary = (error: unknown) => error instanceof DatabaseError && !isRefusal(error.cause);
/** Longer than any test, so only notifications cause a refresh. */
const never = 600_000;

interface Observed {
	ring: KeyRing;
	/** Of the database's sessions. */
	applicationName: string;
	/** The number of statements that the ring has sent. */
	statements: number;
	/** Called before each of them. */
	before: (() => Promise<unknown>) | undefined;
}

/** A key ring on a real database, with a hook between the two. */
async function open(options: Partial<KeyRingOptions> & { url?: string; listens?: boolean } = {}): Promise<Observed> {
	const { url = db.url, listens = true, ...rest } = options;
	const applicationName = `ring ${nextRing++}`;
	const database = openDatabase({ url, applicationName, poolSize: 1 });
	onTestFinished(() => database.close());
	const watch = { applicationName, statements: 0, before: undefined } as Omit<Observed, 'ring'>;
	let changes: ChangeSubscription | undefined;
	const observed: Database = {
		...database,
		async queryReserved(statement) {
			watch.statements++;
			await watch.before?.();
			return database.queryReserved(statement);
		},
		listenForChanges(channel, onChange) {
			if (!listens) return { current: false, stop: () => undefined };
			changes = database.listenForChanges(channel, onChange);
			return changes;
		},
	};
	const ring = await openKeyRing({ database: observed, service: 'company-contacts', ...rest }, isTemporary);
	onTestFinished(() => ring.stop());
	if (listens) {
		await expect.poll(() => changes?.current, { interval: 10 }).toBe(true);
		// Loading has finished. From here on only a notification causes another refresh.
		await ring.refresh();
	}
	return Object.assign(watch, { ring });
}

async function startProxy(): Promise<{ proxy: TcpProxy; url: string }> {
	const proxy = await startTcpProxy(db.url);
	onTestFinished(() => proxy.close());
	return { proxy, url: proxy.through(db.url) };
}

const ageOf = ({ refreshedAt = 0 }: KeyRing) => Date.now() - refreshedAt;
const idOf = async (project: string) => {
	const [row] = await db.sql<{ id: number }[]>`
		select k.id::float8 as id from api_keys k join projects p on p.id = k.project_id where p.code = ${project}`;
	return row?.id ?? Number.NaN;
};

/** Polls without a pause until the ring reports this, and returns how many milliseconds it took, without delays of the machine. */
async function seen(ring: KeyRing, project: string, live: boolean): Promise<number> {
	const stop = watchDelays(() => db.sql`select 1`);
	const begun = performance.now();
	await expect
		.poll(() => ring.find(project, `${project}-key`) !== undefined, { interval: 10, timeout: 5000 })
		.toBe(live);
	const ended = performance.now();
	const machine = await stop();
	return (ended - begun - machine.during(begun, ended)) / machine.slowdown;
}

describe('a change is seen within a second', () => {
	test('by notification: a new key, a disabled project, one that is enabled again, a revoked key', async () => {
		const { ring } = await open({ intervalMs: never });
		expect(ring.find('new', 'new-key')).toBeUndefined();
		await addProject(db.sql, 'new', 'new-key');
		expect(await seen(ring, 'new', true)).toBeLessThan(500);
		expect(ring.find('new', 'new-key')?.code).toBe('new');
		await setProjectEnabled(db.sql, 'new', false);
		expect(await seen(ring, 'new', false)).toBeLessThan(500);
		await setProjectEnabled(db.sql, 'new', true);
		expect(await seen(ring, 'new', true)).toBeLessThan(500);
		await revokeKey(db.sql, await idOf('new'));
		expect(await seen(ring, 'new', false)).toBeLessThan(500);
	});

	test.each([
		['by listening anew', never],
		['as in production', undefined],
	])('though the listener was killed just before, %s', async (_, interval) => {
		const project = `killed-${interval ?? 'usual'}`;
		await addProject(db.sql, project, `${project}-key`);
		const { ring, applicationName } = await open(interval === undefined ? {} : { intervalMs: interval });
		const id = await idOf(project);
		for (let round = 0; round < 3; round++) {
			await db.sql`update api_keys set revoked_at = null where id = ${id}`;
			await seen(ring, project, true);
			const killed = await db.sql`
				select pg_terminate_backend(pid) from pg_stat_activity
				where application_name = ${applicationName} and query ~ '^(listen|select 1$)'`;
			await revokeKey(db.sql, id);
			expect(killed).toHaveLength(1);
			expect(await seen(ring, project, false)).toBeLessThan(1000);
		}
	});

	test('although no notification arrives', async () => {
		await addProject(db.sql, 'unannounced', 'unannounced-key');
		const { ring } = await open({ listens: false });
		await revokeKey(db.sql, await idOf('unannounced'));
		expect(await seen(ring, 'unannounced', false)).toBeLessThan(1000);
	});

	test('although it was made between the two reads of a refresh', async () => {
		await addProject(db.sql, 'between', 'between-key');
		const watched = await open({ listens: false, intervalMs: never });
		const id = await idOf('between');
		await addProject(db.sql, 'another', 'another-key');
		const second = watched.statements + 2;
		watched.before = async () => watched.statements === second && (await revokeKey(db.sql, id));
		await watched.ring.refresh();
		expect(watched.statements).toBe(second);
		await watched.ring.refresh();
		expect(watched.ring.find('another', 'another-key')).toBeDefined();
		expect(watched.ring.find('between', 'between-key')).toBeUndefined();
	});
});

describe('the key ring', () => {
	test('checks right and wrong keys without any statement', async () => {
		await addProject(db.sql, 'asked', 'asked-key');
		const watched = await open({ intervalMs: never });
		const before = watched.statements;
		for (let tries = 0; tries < 1000; tries++) {
			expect(watched.ring.find('asked', 'asked-key')?.code).toBe('asked');
			expect(watched.ring.find('asked', `wrong ${tries}`)).toBeUndefined();
			expect(watched.ring.find(`unknown ${tries}`, 'asked-key')).toBeUndefined();
		}
		await watched.ring.refresh();
		// Only the statement of the refresh.
		expect(watched.statements).toBe(before + 1);
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
});

describe('while the database is unreachable', () => {
	test('at the start, no key can be checked, and its return is reported once', async () => {
		await addProject(db.sql, 'early', 'early-key');
		const { proxy, url } = await startProxy();
		proxy.cut();
		const onStateChange = vi.fn();
		const watched = await open({ url, listens: false, intervalMs: 20, onStateChange });
		expect(() => watched.ring.find('early', 'early-key')).toThrow(DatabaseError);
		expect(watched.ring.refreshedAt).toBeUndefined();
		await expect.poll(() => watched.statements, { timeout: 5000 }).toBeGreaterThan(3);
		expect(onStateChange.mock.calls).toEqual([[expect.any(DatabaseError)]]);

		await proxy.restore();
		await expect.poll(() => onStateChange.mock.calls.length).toBe(2);
		expect(onStateChange.mock.lastCall).toEqual([undefined]);
		expect(watched.ring.find('early', 'early-key')?.code).toBe('early');
		expect(watched.ring.find('early', 'wrong')).toBeUndefined();
	});

	test('after the start, the keys stay valid, their age grows, and changes are seen on its return', async () => {
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

		await proxy.restore();
		expect(await seen(ring, 'later', false)).toBeLessThan(1000);
		await expect.poll(() => onStateChange.mock.calls.slice(1)).toEqual([[undefined]]);
		expect(ageOf(ring)).toBeLessThan(1000);
	});

	test('the listener reconnects by itself afterwards', async () => {
		await addProject(db.sql, 'unheard', 'unheard-key');
		const { proxy, url } = await startProxy();
		const { ring } = await open({ url, intervalMs: never });
		proxy.cut();
		await revokeKey(db.sql, await idOf('unheard'));
		await expect(ring.refresh()).rejects.toBeInstanceOf(DatabaseError);
		await proxy.restore();
		expect(await seen(ring, 'unheard', false)).toBeLessThan(1000);
	});

	test('a database that rejects the configuration fails the start', async () => {
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
