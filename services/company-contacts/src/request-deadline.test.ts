import { openDatabase } from '@contacts/common/database/database.js';
import { DatabaseBusyError, DatabaseError, DeadlineError } from '@contacts/common/database/errors.js';
import { addProject, startTestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { database, test } from '@contacts/testing/test.js';
import { Registry } from 'prom-client';
import { beforeEach, describe, expect, onTestFinished } from 'vitest';
import { service } from './app.js';
import { createChangeFeed } from './changes/change-feed.js';
import { createListCache } from './list-cache.js';

const state = { current: true, now: 0 };
const clock = () => state.now;

beforeEach(() => {
	state.now = 0;
});

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

/** Keeps the table and its version from being read. */
async function lockTables() {
	// `reserve()` never connects, so both connections have to exist.
	await Promise.all([database.sql`select`, database.sql`select`]);
	const table = await database.sql.reserve();
	const version = await database.sql.reserve();
	await table`begin`;
	await table`lock table company_contacts`;
	await version`begin`;
	await version`lock table company_contacts_version`;
	await version`update company_contacts_version set version = version + 1`;
	onTestFinished(async () => {
		await table`rollback`;
		table.release();
		version.release();
	});
	return { unlockVersion: () => version`commit` };
}

test('the statements of one list share its deadline', async () => {
	const cache = createListCache({
		database: open(2000),
		subscription: state,
		registry: new Registry(),
		maxBytes: 10_000_000,
		maxListBytes: 10_000_000,
		clock,
	});
	await cache.read('7');
	state.now = 5000;
	const { unlockVersion } = await lockTables();
	const order: string[] = [];
	const list = cache.read('7').catch(() => order.push('list refused'));
	// When the version can be read, 1,400 of 2,000 milliseconds have passed. It says that the list, which can't be read, is old.
	await refusalAfter(1400);
	await unlockVersion();
	await Promise.all([list, refusalAfter(1200).then(() => order.push('1200 ms later'))]);
	expect(order).toEqual(['list refused', '1200 ms later']);
});

/** A list cache whose queries fail at their deadline when `expire` is called, while `isSlow` is set. */
async function openCache(isAged: boolean) {
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
		subscription: state,
		registry: new Registry(),
		maxBytes: 10_000_000,
		maxListBytes: 10_000_000,
		clock,
	});
	if (isAged) await cache.read('7');
	state.now = 5000;
	queries.isSlow = true;
	queries.count = 0;
	return { cache, queries };
}

describe.each([
	['list', false],
	['version', true],
])('when the query of a %s that two requests share misses the deadline of the first one', (_, isAged) => {
	test('the second one asks again and gets its list', async () => {
		const { cache, queries } = await openCache(isAged);
		const [first, second] = [cache.read('7'), cache.read('7')];
		await expect.poll(() => queries.count).toBe(1);
		queries.isSlow = false;
		queries.expire();
		await expect(first).rejects.toThrow(DatabaseError);
		expect(String((await (await second).representations?.get('identity'))?.body)).toBe('{"count":0,"data":[]}');
	});

	test('the second one asks again only once', async () => {
		const { cache, queries } = await openCache(isAged);
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
	const opened = open(4000);
	let isFull = false;
	const feed = createChangeFeed({
		database: {
			...opened,
			get isFull() {
				return isFull;
			},
		},
		subscription: state,
		registry: new Registry(),
		clock,
	});
	await database.sql`insert into company_contacts (bitrix_id) select n from generate_series(1, 3) n`;
	const first = await feed.read(undefined, 2);
	const { cursor } = JSON.parse(String((await first.get('identity')).body)) as { cursor: string };
	isFull = true;
	await expect(feed.read(cursor, 1)).rejects.toThrow(DatabaseBusyError);
	isFull = false;
	expect(String((await (await feed.read(cursor, 1)).get('identity')).body)).toContain('"bitrix_id":3');
});
