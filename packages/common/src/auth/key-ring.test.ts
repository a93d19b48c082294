import { urlAs } from '@contacts/migrations/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { type Database, openDatabase } from '../database/database.js';
import { DatabaseError } from '../database/errors.js';
import { openStatePoll, type StatePoll, type StatePollOptions } from '../database/state-poll.js';
import { type KeyRing, type KeyRingOptions, openKeyRing } from './key-ring.js';
import { watchedKeys } from './key-ring.sql.js';
import { revokeKey, setProjectEnabled } from './projects.sql.js';

/** Longer than any test, so that polls are started by the test alone. */
const never = 600_000;

interface Observed {
	ring: KeyRing;
	poll: StatePoll;
	database: Database;
	/** How often the keys were read. */
	loads: number;
	/** Called between a poll and what the ring reads after it. */
	between: (() => Promise<unknown>) | undefined;
}

/** A key ring of company-contacts on a real database, which polls only when the test calls `refresh`. */
async function open(options: Pick<KeyRingOptions, 'now'> & Partial<StatePollOptions> = {}): Promise<Observed> {
	const { url = urlAs(db.url, 'company-contacts', rolePassword), now, ...rest } = options;
	const clock = () => performance.now();
	const database = openDatabase({ url, applicationName: 'key uses', poolSize: 3, clock });
	const poll = openStatePoll({
		url,
		applicationName: 'poll',
		watched: [watchedKeys],
		intervalMs: never,
		clock,
		...rest,
	});
	onTestFinished(() => Promise.all([poll.close(), database.close()]).then(() => undefined));
	const observed: Partial<Observed> = { database, poll, loads: 0 };
	const observedPoll: StatePoll = {
		...poll,
		get state() {
			return poll.state;
		},
		get confirmed() {
			return poll.confirmed;
		},
		follow: (follower) =>
			poll.follow(async (state, sql) => {
				await observed.between?.();
				const counted = new Proxy(sql, {
					apply(target, _, statement) {
						observed.loads = Number(observed.loads) + 1;
						return Reflect.apply(target, undefined, statement);
					},
				});
				await follower(state, counted);
			}),
	};
	const ring = await openKeyRing({
		poll: observedPoll,
		database,
		service: 'company-contacts',
		...(now ? { now } : {}),
	});
	onTestFinished(() => ring.stop());
	return Object.assign(observed, { ring }) as Observed;
}

/** Finds what was committed before. */
const refresh = (poll: StatePoll) => poll.refresh(4000);

const idOf = async (project: string) => {
	const [row] = await db.sql<{ id: number }[]>`
		select k.id::float8 as id from api_keys k join projects p on p.id = k.project_id where p.code = ${project}`;
	return row?.id ?? Number.NaN;
};
const codeOf = (ring: KeyRing, project: string) => ring.find(project, `${project}-key`)?.code;

describe('a poll', () => {
	test('finds a new key, a disabled project, one that is enabled again, a revoked key', async () => {
		const { ring, poll } = await open();
		expect(codeOf(ring, 'new')).toBeUndefined();
		for (const [change, found] of [
			[() => addProject(db.sql, 'new', 'new-key'), 'new'],
			[() => setProjectEnabled(db.sql, 'new', false), undefined],
			[() => setProjectEnabled(db.sql, 'new', true), 'new'],
			[async () => revokeKey(db.sql, await idOf('new')), undefined],
		] as const) {
			await change();
			await refresh(poll);
			expect(codeOf(ring, 'new')).toBe(found);
		}
	});

	test('finds a change that was made between its two reads, in the next poll', async () => {
		await addProject(db.sql, 'between', 'between-key');
		const observed = await open();
		const id = await idOf('between');
		await addProject(db.sql, 'another', 'another-key');
		const { loads } = observed;
		observed.between = async () => observed.loads === loads && (await revokeKey(db.sql, id));
		await refresh(observed.poll);
		expect(observed.loads).toBe(loads + 1);
		await refresh(observed.poll);
		expect(codeOf(observed.ring, 'another')).toBe('another');
		expect(codeOf(observed.ring, 'between')).toBeUndefined();
	});

	test('reads no keys while nothing changes, however many keys are checked', async () => {
		await addProject(db.sql, 'asked', 'asked-key');
		const observed = await open();
		const { loads } = observed;
		for (let tries = 0; tries < 1000; tries++) {
			expect(codeOf(observed.ring, 'asked')).toBe('asked');
			expect(observed.ring.find('asked', `wrong ${tries}`)).toBeUndefined();
		}
		await refresh(observed.poll);
		expect(observed.loads).toBe(loads);
	});

	test('reads the keys of a server that takes over, even if they have the same version', async () => {
		await addProject(db.sql, 'taken', 'taken-key');
		const proxy = await startTcpProxy(db.url);
		onTestFinished(() => proxy.close());
		const { ring, poll } = await open({ url: proxy.through(db.url) });
		expect(codeOf(ring, 'taken')).toBe('taken');
		proxy.cut();
		await revokeKey(db.sql, await idOf('taken'));
		await db.sql`update key_ring_version set version = version - 1`;
		await expect(refresh(poll)).rejects.toBeInstanceOf(DatabaseError);
		await proxy.restore();
		await expect.poll(() => codeOf(ring, 'taken')).toBeUndefined();
		await db.sql`update key_ring_version set version = version + 1`;
	});
});

describe('the key ring', () => {
	test('contains a key that had expired when it was read, unless long ago: the database’s clock may be set back', async () => {
		let now = Date.now();
		const day = 86_400_000;
		await addProject(db.sql, 'month', 'month-key', { expiresAt: new Date(now - 29 * day) });
		await addProject(db.sql, 'year', 'year-key', { expiresAt: new Date(now - 31 * day) });
		const { ring } = await open({ now: () => now });
		expect(codeOf(ring, 'month')).toBeUndefined();
		expect(ring.liveKeys().map(({ code }) => code)).not.toContain('month');
		now -= 40 * day;
		const project = ring.find('month', 'month-key');
		if (project === undefined) return expect.unreachable('it is refused');
		expect([ring.isLive(project), ring.liveKeys().some(({ code }) => code === 'month')]).toEqual([true, true]);
		expect(codeOf(ring, 'year')).toBeUndefined();
		now += 40 * day;
		expect(ring.isLive(project)).toBe(false);
	});

	test('knows why the newest 10,000 rejected keys are rejected, and no more of them', async () => {
		await addProject(db.sql, 'rotated', 'first-key');
		await db.sql`
			insert into api_keys (project_id, hash)
			select id, sha256(('rotated-' || n)::bytea) from projects, generate_series(1, 10000) n
			where code = 'rotated' order by n`;
		await db.sql`update api_keys set revoked_at = now() where project_id = (select id from projects where code = 'rotated')`;
		const { ring } = await open();
		const reasons = ['first-key', 'rotated-1', 'rotated-10000'].map((key) => ring.findReason('rotated', key));
		expect(reasons).toEqual(['unknown_key', 'revoked_key', 'revoked_key']);
	});
});

describe('while the database is unreachable', () => {
	test('at the start no key can be checked; afterwards the keys stay, but are not confirmed', async () => {
		await addProject(db.sql, 'early', 'early-key');
		const proxy = await startTcpProxy(db.url);
		onTestFinished(() => proxy.close());
		proxy.cut();
		const onStateChange = vi.fn();
		let now = 0;
		const { ring, poll } = await open({ url: proxy.through(db.url), onStateChange, clock: () => now });
		expect(() => codeOf(ring, 'early')).toThrow(DatabaseError);
		expect(poll.confirmed).toBeUndefined();
		for (let tries = 0; tries < 3; tries++) await expect(refresh(poll)).rejects.toBeInstanceOf(DatabaseError);
		expect(onStateChange.mock.calls).toEqual([[expect.any(DatabaseError)]]);

		await proxy.restore();
		await expect.poll(() => onStateChange.mock.calls.slice(1)).toEqual([[undefined]]);
		expect(codeOf(ring, 'early')).toBe('early');
		expect(poll.confirmed).toBeDefined();

		proxy.cut();
		now = 1900;
		expect([codeOf(ring, 'early'), poll.confirmed]).toEqual(['early', undefined]);
		await expect(poll.confirm(20_000)).rejects.toBeInstanceOf(DatabaseError);
	});
});

describe('the uses of keys', () => {
	/** The projects with a key whose last use is stored. */
	const used = async () => {
		const rows = await db.sql<{ code: string }[]>`
			select p.code from api_key_uses u join api_keys k on k.id = u.key_id join projects p on p.id = k.project_id`;
		return rows.map(({ code }) => code).sort();
	};

	test('are stored although a key is deleted by hand, before or meanwhile', async () => {
		for (const code of ['stays', 'deleted', 'vanishing']) await addProject(db.sql, code, `${code}-key`);
		const { ring } = await open();
		for (const code of ['stays', 'deleted', 'vanishing']) expect(codeOf(ring, code)).toBe(code);
		await db.sql`delete from api_keys where id = ${await idOf('deleted')}`;
		const other = await db.sql.reserve();
		await other`begin`;
		await other`delete from api_keys where id = ${await idOf('vanishing')}`;
		const flushed = ring.stop();
		// The statement still sees the key, and waits for the deletion to commit.
		await expect
			.poll(
				() => db.sql`
					select from pg_stat_activity
					where datname = current_database() and application_name = 'key uses' and wait_event_type = 'Lock'`,
			)
			.toHaveLength(1);
		await other`commit`;
		other.release();
		await flushed;
		await ring.stop();
		await expect.poll(used).toContain('stays');
	});

	test('are kept on a read-only server, and no connection is replaced, until it can be written', async () => {
		await addProject(db.sql, 'partner', 'partner-key');
		const role = new URL(db.url).pathname.slice(1);
		await db.sql.unsafe(`
			create role ${role} login superuser password 'reader';
			alter role ${role} set default_transaction_read_only = on`);
		onTestFinished(() => db.sql.unsafe(`drop role ${role}`).then(() => undefined));
		const url = Object.assign(new URL(db.url), { username: role, password: 'reader' }).href;
		const { ring, poll, database } = await open({ url });
		/** Sends a statement over each connection. */
		const onEach = <Row>(statement: string) =>
			Promise.all([1, 2, 3].map(() => database.query((sql) => sql.unsafe<Row[]>(statement))));
		const backends = async () => {
			const rows = await onEach<{ pid: number }>('select pg_backend_pid() as pid');
			return rows.map(([row]) => row?.pid).sort();
		};
		const before = await backends();
		expect(codeOf(ring, 'partner')).toBe('partner');
		await ring.stop();
		expect(await backends()).toEqual(before);
		expect(await used()).not.toContain('partner');

		// As when a standby is promoted: its connections stay.
		await onEach('set default_transaction_read_only = off');
		await db.sql.unsafe(`alter role ${role} set default_transaction_read_only = off`);
		// The poll's session is read-only as long as it lasts.
		await ring.stop();
		await refresh(poll);
		await ring.stop();
		await expect.poll(used).toContain('partner');
		expect(await backends()).toEqual(before);
	});
});
