import { openDatabase } from '@contacts/common/database/database.js';
import { DatabaseBusyError } from '@contacts/common/database/errors.js';
import { database, test } from '@contacts/testing/test.js';
import { Registry } from 'prom-client';
import { beforeEach, expect, onTestFinished } from 'vitest';
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
		database: open(1000),
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
	// When the version can be read, 700 of 1,000 milliseconds have passed. It says that the list, which can't be read, is old.
	await refusalAfter(700);
	await unlockVersion();
	await Promise.all([list, refusalAfter(600).then(() => order.push('600 ms later'))]);
	expect(order).toEqual(['list refused', '600 ms later']);
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
