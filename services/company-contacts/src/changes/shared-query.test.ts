import { openDatabase } from '@contacts/common/database/database.js';
import { DatabaseError, DeadlineError } from '@contacts/common/database/errors.js';
import { database, test } from '@contacts/testing/test.js';
import { Registry } from 'prom-client';
import { describe, expect, onTestFinished } from 'vitest';
import { openManualPoll } from '../testing/manual-poll.js';
import { createChangeFeed } from './change-feed.js';
import type { ChangesBody } from './testing/copy.js';

test.beforeAll(async () => {
	await database.sql`insert into company_contacts (bitrix_id) select n from generate_series(1, 3) n`;
});

/** A change feed whose queries fail at their deadline when `expire` is called, while `isSlow` is set. */
async function openFeed(isChanged: boolean) {
	const opened = openDatabase({ url: database.url, applicationName: 'test', poolSize: 2, deadlineMs: 60_000 });
	onTestFinished(() => opened.close());
	const { poll, see } = openManualPoll();
	const queries = { count: 0, expire: () => {}, isSlow: false };
	const query: typeof opened.query = async (...statement) => {
		queries.count++;
		if (!queries.isSlow) return opened.query(...statement);
		return new Promise((_, fail) => {
			queries.expire = () => fail(new DatabaseError(new DeadlineError(60_000, true)));
		});
	};
	const feed = createChangeFeed({ database: { ...opened, query }, poll, registry: new Registry() });
	const read = async (cursor?: string, limit?: number) => {
		const response = await feed.read(cursor, limit ?? 1000);
		return JSON.parse(String((await response.get('identity')).body)) as ChangesBody;
	};
	const { cursor } = await read();
	if (isChanged) {
		await database.sql`update company_contacts set name = coalesce(name, '') || '!' where bitrix_id = 1`;
		await see();
	}
	queries.isSlow = true;
	queries.count = 0;
	return { queries, read: () => (isChanged ? read(cursor) : read(undefined, 2)) };
}

describe.each([
	['newest changes', true, 1],
	['first page', false, 2],
])('when the query of the %s that two requests share misses the deadline of the first one', (_, isChanged, changes) => {
	test('the second one asks again and gets its changes', async () => {
		const { queries, read } = await openFeed(isChanged);
		const [first, second] = [read(), read()];
		const refused = expect(first).rejects.toThrow(DatabaseError);
		await expect.poll(() => queries.count, { timeout: 20_000 }).toBe(1);
		queries.isSlow = false;
		queries.expire();
		await refused;
		expect((await second).changes).toHaveLength(changes);
	});

	test('the second one asks again only once', async () => {
		const { queries, read } = await openFeed(isChanged);
		const all = Promise.allSettled([read(), read(), read()]);
		for (const count of [1, 2]) {
			await expect.poll(() => queries.count, { timeout: 20_000 }).toBe(count);
			queries.expire();
		}
		expect((await all).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
		expect(queries.count).toBe(2);
	});
});
