import { type Database, openDatabase } from '@contacts/common/database/database.js';
import { type Deadline, startDeadline } from '@contacts/common/database/deadline.js';
import { DatabaseError, DeadlineError } from '@contacts/common/database/errors.js';
import { addProject, startTestApp } from '@contacts/testing/app.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { Registry } from 'prom-client';
import { describe, expect, onTestFinished } from 'vitest';
import { service } from './app.js';
import { createChangeFeed } from './changes/change-feed.js';
import type { ChangesBody } from './changes/testing/copy.js';
import { createListCache, syncedAtOf } from './list-cache.js';
import { openManualPoll } from './testing/manual-poll.js';

test.beforeAll(async () => {
	await addProject(db.sql, 'first', 'first-key');
	await db.sql`
		insert into company_contacts (bitrix_id, name, company_ids)
		select n, 'Contact ' || n, array[1 + n % 50] from generate_series(1, 5000) n`;
});

/** Changes a contact of company 7. */
const rename = (name: string) => db.sql`update company_contacts set name = ${name} where bitrix_id = 6`;

/** The real database, whose queries are counted, and which can be late or unresponsive. */
function openObservedDatabase() {
	const observed = {
		/** The time by which callers wait, in milliseconds. */
		now: 0,
		/** How many queries were sent. */
		queries: 0,
		/** While it is set, each result waits for it after it was read. */
		held: undefined as Promise<unknown> | undefined,
		/** While it is set, each query is sent nowhere, and fails at its deadline when `expire` is called. */
		isSlow: false,
		expire: (): void => undefined,
	};
	const clock = () => observed.now;
	const opened = openDatabase({ url: db.url, applicationName: 'observed', poolSize: 4, maxCallers: 2000, clock });
	onTestFinished(() => opened.close());
	const read: Database['read'] = async (...statement) => {
		observed.queries++;
		if (observed.isSlow)
			return new Promise((_, fail) => {
				observed.expire = () => fail(new DatabaseError(new DeadlineError(opened.deadlineMs, true)));
			});
		const { held } = observed;
		const rows = await opened.read(...statement);
		await held;
		return rows;
	};
	return Object.assign(observed, { database: { ...opened, read } });
}

/** The responses of one process. Its statements are counted, and it polls only when a test says so. */
type Observed = ReturnType<typeof openObservedDatabase> & {
	/** A response that has the name of company 7's contact after a change. */
	read(deadline?: Deadline): Promise<string>;
	/** Finds what was committed before. */
	see(): Promise<unknown>;
};

function openProcess() {
	const observed = openObservedDatabase();
	return { observed, ...openManualPoll({ clock: () => observed.now }), registry: new Registry() };
}

async function openList({ maxBytes = 10_000_000 } = {}) {
	const { observed, poll, see, registry } = openProcess();
	const cache = createListCache({ database: observed.database, poll, registry, maxBytes, maxListBytes: 10_000_000 });
	const get = async (company?: string, deadline = startDeadline(observed.database.deadlineMs)) => {
		const state = await poll.confirm(20_000);
		return cache.find(company, state) ?? (await cache.read(company, state, deadline));
	};
	const text = async (company?: string, deadline?: Deadline) =>
		String((await (await get(company, deadline)).representations?.get('identity'))?.body);
	await see();
	return Object.assign(observed, { poll, see, get, text, read: (deadline?: Deadline) => text('7', deadline) });
}

async function openFeed() {
	const { observed, poll, see, registry } = openProcess();
	const feed = createChangeFeed({ database: observed.database, poll, registry });
	const page = async (cursor?: string, deadline = startDeadline(observed.database.deadlineMs)) => {
		const state = await poll.confirm(20_000);
		const response = feed.find(cursor, 1000, state) ?? (await feed.read(cursor, 1000, state, deadline));
		return JSON.parse(String((await response.get('identity')).body)) as ChangesBody;
	};
	let body = await page();
	while (body.has_more) body = await page(body.cursor);
	/** After all changes. */
	const { cursor } = body;
	observed.queries = 0;
	const read = async (deadline?: Deadline) => JSON.stringify(await page(cursor, deadline));
	return Object.assign(observed, { page, see, cursor, read });
}

describe.each<[string, () => Promise<Observed>, number]>([
	['lists', openList, 1000],
	// More than may wait for the database.
	['changes', openFeed, 3000],
])('%s in memory', (_, open, clients) => {
	test('a change costs one query, and nobody is refused, when thousands of clients ask at once', async () => {
		const observed = await open();
		await rename('Asked at once');
		await observed.see();
		const texts = await Promise.all(Array.from({ length: clients }, () => observed.read()));
		expect(new Set(texts).size).toBe(1);
		expect(texts[0]).toContain('Asked at once');
		await observed.read();
		expect(observed.queries).toBe(1);
	});

	test('what was read before a change is not served after it, and no later request receives it', async () => {
		const observed = await open();
		await rename('An earlier name');
		await observed.see();
		let release: () => void = () => undefined;
		observed.held = new Promise<void>((resolve) => {
			release = resolve;
		});
		const early = observed.read();
		await expect.poll(() => observed.queries).toBe(1);
		await rename('A later name');
		await observed.see();
		const late = observed.read();
		await expect.poll(() => observed.queries).toBe(2);
		release();
		await early;
		expect(await late).toContain('A later name');
		expect(await observed.read()).toContain('A later name');
		expect(observed.queries).toBe(2);
	});

	test('while nothing is polled they are served for a second, and then after one poll that everybody shares', async () => {
		const observed = await open();
		const before = await observed.read();
		const { queries } = observed;
		await rename(`Not seen ${performance.now()}`);
		observed.now = 999;
		expect(await observed.read()).toBe(before);
		observed.now = 1900;
		const texts = await Promise.all(Array.from({ length: 100 }, () => observed.read()));
		expect(new Set(texts).size).toBe(1);
		expect(texts[0]).toContain('Not seen');
		expect(observed.queries).toBe(queries + 1);
		for (const now of [20_000, 30_000]) {
			observed.now = now;
			expect(await observed.read()).toBe(texts[0]);
		}
		expect(observed.queries).toBe(queries + 1);
	});

	test('a request that has waited for most of its deadline leaves its query only the rest', async () => {
		const observed = await open();
		await rename('Locked');
		await observed.see();
		const lock = await db.sql.reserve();
		onTestFinished(() => lock.release());
		await lock`begin`;
		await lock`lock table company_contacts in access exclusive mode`;
		const late = observed.read(startDeadline(200));
		// Asked just now, it may wait for longer.
		const early = observed.read();
		const first = await Promise.race([early, late.catch((error: unknown) => error)]);
		expect(first).toBeInstanceOf(DatabaseError);
		await lock`rollback`;
		expect(await early).toContain('Locked');
	});
});

describe('lists in memory', () => {
	test('an unchanged list that was read again is kept once, even while clients read it', async () => {
		const { see, get } = await openList();
		const first = (await get('7')).representations;
		await db.sql`update company_contacts set name = 'Of another list' where bitrix_id = 9`;
		await see();
		expect((await get('7')).representations).toBe(first);
		await rename('Another');
		await see();
		expect((await get('7')).representations).not.toBe(first);
	});

	test('memory is bounded, also for companies without contacts', async () => {
		const observed = await openList({ maxBytes: 50_000 });
		for (let company = 1; company <= 500; company++) await observed.text(String(company + 1_000_000));
		await observed.text('1000001');
		expect(observed.queries).toBe(501);
		// Larger than all the memory: no body, and the cache remembers that.
		expect((await observed.get()).representations).toBe(undefined);
		expect((await observed.get()).representations).toBe(undefined);
		expect(observed.queries).toBe(502);
	});

	test('a list has the time of the last sync run that its data is known to equal', async () => {
		const [first, second] = [1_762_248_600_000, 1_762_248_900_000];
		const endRun = (at: number) => db.sql`update crm_sync_state set last_success_at = ${new Date(at)}`;
		await endRun(first);
		const observed = await openList();
		const syncedAt = async () => syncedAtOf(await observed.get('7'), await observed.poll.confirm(20_000));
		expect(await syncedAt()).toBe(first);
		await rename('Of the second run');
		await endRun(second);
		// Until this process sees the change, its list is from before that run.
		expect(await syncedAt()).toBe(first);
		await observed.see();
		expect(await syncedAt()).toBe(second);
		await endRun(second + 1000);
		await observed.see();
		// Nothing has changed since it was read.
		expect(await syncedAt()).toBe(second + 1000);
	});

	test('requests that share a query which misses its deadline ask again together, once; no later request fails', async () => {
		const observed = await openList();
		await rename('After a failure');
		await observed.see();
		observed.isSlow = true;
		const all = Promise.allSettled([observed.read(), observed.read(), observed.read()]);
		for (const count of [1, 2]) {
			await expect.poll(() => observed.queries).toBe(count);
			observed.expire();
		}
		expect((await all).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
		const [first, second] = [observed.read(), observed.read()];
		await expect.poll(() => observed.queries).toBe(3);
		observed.isSlow = false;
		observed.expire();
		await expect(first).rejects.toThrow(DatabaseError);
		expect(await second).toContain('After a failure');
	});
});

describe('changes in memory', () => {
	test('nothing new costs no query, whatever process gave the cursor', async () => {
		const [one, other] = [await openFeed(), await openFeed()];
		await rename('Seen by one');
		await one.see();
		const { cursor } = await one.page(one.cursor);
		await other.see();
		expect((await other.page(cursor)).changes).toEqual([]);
		expect(other.queries).toBe(0);
	});

	test('a newer cursor of another process makes this process query the database', async () => {
		const [one, other] = [await openFeed(), await openFeed()];
		await rename('Seen by one again');
		await one.see();
		const { cursor } = await one.page(one.cursor);
		await rename('Seen by none');
		expect((await other.page(cursor)).changes).toHaveLength(1);
	});
});

test('an unavailable database causes a 500, not an old response', async () => {
	const proxy = await startTcpProxy(db.url);
	onTestFinished(() => proxy.close());
	const app = await startTestApp(service, db.url, { pollUrl: proxy.through(db.url) });
	onTestFinished(() => app.close());
	const statuses = () =>
		Promise.all(
			['list', 'changes'].map(async (name) => {
				const response = await app.fetch(`/api/company_contacts.${name}?project=first&api_key=first-key`);
				await response.arrayBuffer();
				return response.status;
			}),
		);
	expect(await statuses()).toEqual([200, 200]);
	proxy.cut();
	await expect.poll(statuses).toEqual([500, 500]);
	await proxy.restore();
	await expect.poll(statuses).toEqual([200, 200]);
});
