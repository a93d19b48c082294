import { openDatabase } from '@contacts/common/database/database.js';
import { DatabaseBusyError, DatabaseError, DeadlineError } from '@contacts/common/database/errors.js';
import { addProject, startTestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database, test } from '@contacts/testing/test.js';
import { Registry } from 'prom-client';
import { describe, expect, onTestFinished } from 'vitest';
import { service } from './app.js';
import { createChangeFeed } from './changes/change-feed.js';
import { createListCache } from './list-cache.js';
import { openManualPoll } from './testing/manual-poll.js';

function open(deadlineMs: number) {
	const opened = openDatabase({ url: database.url, applicationName: 'test', poolSize: 2, deadlineMs });
	onTestFinished(() => opened.close());
	return opened;
}

/** Resolves after this many milliseconds: the table is locked, so the query is refused at its deadline. */
const refusalAfter = (deadlineMs: number) =>
	open(deadlineMs)
		.query((sql) => sql`select count(*) from company_contacts`)
		.catch(() => undefined);

test('the wait for a poll and the query of a list share its deadline', async () => {
	const proxy = await startTcpProxy(database.url);
	onTestFinished(() => proxy.close());
	let now = 0;
	const { poll, see } = openManualPoll({ url: proxy.through(database.url), clock: () => now });
	await see();
	const cache = createListCache({
		database: open(2000),
		poll,
		registry: new Registry(),
		maxBytes: 10_000_000,
		maxListBytes: 10_000_000,
	});
	await Promise.all([database.sql`select`, database.sql`select`]);
	const lock = await database.sql.reserve();
	await lock`begin`;
	await lock`lock table company_contacts`;
	onTestFinished(async () => {
		await lock`rollback`;
		lock.release();
	});
	now = 5000;
	proxy.stall();
	const order: string[] = [];
	const list = cache.read('7').catch(() => order.push('list refused'));
	// When the poll responds, 1,400 of 2,000 milliseconds have passed. The list can't be read.
	await refusalAfter(1400);
	await proxy.restore();
	await Promise.all([list, refusalAfter(1200).then(() => order.push('1200 ms later'))]);
	expect(order).toEqual(['list refused', '1200 ms later']);
});

/** A list cache whose queries fail at their deadline when `expire` is called, while `isSlow` is set. */
async function openCache() {
	const opened = open(4000);
	const queries = { count: 0, expire: () => {}, isSlow: false };
	const query: typeof opened.query = async (...statement) => {
		queries.count++;
		if (!queries.isSlow) return opened.query(...statement);
		return new Promise((_, fail) => {
			queries.expire = () => fail(new DatabaseError(new DeadlineError(4000, true)));
		});
	};
	const cache = createListCache({
		database: { ...opened, query },
		poll: openManualPoll().poll,
		registry: new Registry(),
		maxBytes: 10_000_000,
		maxListBytes: 10_000_000,
	});
	queries.isSlow = true;
	queries.count = 0;
	return { cache, queries };
}

describe('when the query of a list that two requests share misses the deadline of the first one', () => {
	test('the second one asks again and gets its list', async () => {
		const { cache, queries } = await openCache();
		const [first, second] = [cache.read('7'), cache.read('7')];
		await expect.poll(() => queries.count).toBe(1);
		queries.isSlow = false;
		queries.expire();
		await expect(first).rejects.toThrow(DatabaseError);
		expect(String((await (await second).representations?.get('identity'))?.body)).toBe('{"count":0,"data":[]}');
	});

	test('the second one asks again only once', async () => {
		const { cache, queries } = await openCache();
		const all = Promise.allSettled([cache.read('7'), cache.read('7'), cache.read('7')]);
		for (const count of [1, 2]) {
			await expect.poll(() => queries.count).toBe(count);
			queries.expire();
		}
		expect((await all).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
		expect(queries.count).toBe(2);
	});
});

test('the statements of a streamed list share its deadline', async () => {
	await addProject(database.sql, 'partner', 'partner-key');
	await database.sql`insert into company_contacts (bitrix_id) values (100)`;
	const app = await startTestApp(service, database.url, {
		database: { deadlineMs: 2000 },
		environment: { LIST_STREAM_MEGABYTES: '0' },
	});
	onTestFinished(() => app.close());
	const blocked = (count: number) =>
		expect
			.poll(
				() =>
					database.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
			)
			.toHaveLength(count);
	await Promise.all([database.sql`select`, database.sql`select`, database.sql`select`]);
	const [first, second] = [await database.sql.reserve(), await database.sql.reserve()];
	onTestFinished(async () => {
		for (const session of [first, second]) {
			await session`rollback`;
			session.release();
		}
		await database.sql`delete from company_contacts`;
	});
	await first`begin`;
	await first`lock table company_contacts`;
	const order: string[] = [];
	const list = (async () => {
		const response = await app.fetch('/api/company_contacts.list?project=partner&api_key=partner-key');
		order.push('list refused');
		await expectProblem(response, 500, 'database_error');
	})();
	await blocked(1);
	await second`begin`;
	const locked = second`lock table company_contacts`.then(() => undefined);
	await blocked(2);
	// When the first statement can read the table, 1,400 of 2,000 milliseconds have passed. The second one can't.
	await refusalAfter(1400);
	await first`commit`;
	await locked;
	// The refusal needs its way through the network besides.
	const later = refusalAfter(1200).then(() => app.fetch('/health/live'));
	await Promise.all([list, later.then(() => order.push('1200 ms later'))]);
	expect(order).toEqual(['list refused', '1200 ms later']);
});

test('changes are not read from the table for another client while the database is full', async () => {
	let now = 0;
	const opened = openDatabase({
		url: database.url,
		applicationName: 'test',
		poolSize: 1,
		deadlineMs: 60_000,
		clock: () => now,
	});
	onTestFinished(() => opened.close());
	const feed = createChangeFeed({ database: opened, poll: openManualPoll().poll, registry: new Registry() });
	await database.sql`insert into company_contacts (bitrix_id) select n from generate_series(1, 3) n`;
	const first = await feed.read(undefined, 2);
	const { cursor } = JSON.parse(String((await first.get('identity')).body)) as { cursor: string };

	const lock = await database.sql.reserve();
	await lock`select pg_advisory_lock(1)`;
	const others = Array.from({ length: 52 }, () => opened.query((sql) => sql`select pg_advisory_xact_lock_shared(1)`));
	now += 500;
	await expect(feed.read(cursor, 1)).rejects.toThrow(DatabaseBusyError);
	await lock`select pg_advisory_unlock(1)`;
	lock.release();
	await Promise.all(others);
	expect(String((await (await feed.read(cursor, 1)).get('identity')).body)).toContain('"bitrix_id":3');
});
