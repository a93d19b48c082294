import { type Database, openDatabase } from '@contacts/common/database/database.js';
import { DatabaseError } from '@contacts/common/database/errors.js';
import { database, test } from '@contacts/testing/test.js';
import { Registry } from 'prom-client';
import { describe, expect, onTestFinished } from 'vitest';
import { openManualPoll } from '../testing/manual-poll.js';
import { createChangeFeed } from './change-feed.js';
import type { ChangesBody } from './testing/copy.js';

test.beforeAll(async () => {
	await database.sql`insert into company_contacts (bitrix_id, name) select n, 'Contact ' || n from generate_series(1, 5000) n`;
});

/** A process's feed of the real table that counts its queries. `before` runs before each query returns, and sees its rows. */
async function openFeed(before: (rows: unknown) => Promise<void> | void = () => undefined) {
	const opened = openDatabase({ url: database.url, applicationName: 'test feed', poolSize: 4 });
	onTestFinished(() => opened.close());
	const state = { queries: 0, now: 0 };
	const { poll, see } = openManualPoll({ clock: () => state.now });
	const counting: Database = {
		...opened,
		async query(...statement) {
			state.queries++;
			const rows = await opened.query(...statement);
			await before(rows);
			return rows;
		},
	};
	const feed = createChangeFeed({ database: counting, poll, registry: new Registry() });
	const read = async (cursor?: string, limit = 1000) => {
		const response = feed.find(cursor, limit) ?? (await feed.read(cursor, limit));
		return JSON.parse(String((await response.get('identity')).body)) as ChangesBody;
	};
	/** The cursor after all changes. */
	const follow = async () => {
		let body = await read();
		while (body.has_more) body = await read(body.cursor);
		return body.cursor;
	};
	const cursor = await follow();
	state.queries = 0;
	return { state, see, read, follow, cursor };
}

const change = (where: string) =>
	database.sql.unsafe(`update company_contacts set name = coalesce(name, '') || '!' where ${where}`);

test('without changes all polls together cost no query', async () => {
	const { state, read, cursor } = await openFeed();
	for (const now of [0, 999, 10_000, 20_000]) {
		state.now = now;
		for (const body of await Promise.all(Array.from({ length: 100 }, () => read(cursor))))
			expect(body).toEqual({ changes: [], cursor, has_more: false });
	}
	expect(state.queries).toBe(0);
});

test.each([1000, 2000])(
	'a change costs one query, and nobody is refused, when %i clients poll at once',
	async (clients) => {
		const { see, state, read, cursor } = await openFeed();
		await change('bitrix_id = 7');
		await see();
		const bodies = await Promise.all(Array.from({ length: clients }, () => read(cursor)));
		expect(new Set(bodies.map((body) => JSON.stringify(body))).size).toBe(1);
		expect(bodies[0]?.changes.map(({ contact }) => contact.bitrix_id)).toEqual([7]);
		expect(state.queries).toBe(1);
	},
);

test('a change costs one query, whatever cursors the clients poll with', async () => {
	const { see, state, read, cursor } = await openFeed();
	const cursors = [cursor];
	for (let n = 1; n <= 20; n++) {
		await change(`bitrix_id = ${n}`);
		await see();
		const bodies = await Promise.all(cursors.map((each) => read(each)));
		expect(bodies.map(({ changes }) => changes.length)).toEqual(cursors.map((_, index) => n - index));
		cursors.push(String(bodies[0]?.cursor));
	}
	expect(state.queries).toBe(20);
});

test('a request after a change never receives what was read before it', async () => {
	let release: () => void = () => undefined;
	let held: Promise<void> | undefined;
	const { see, state, read, cursor } = await openFeed(() => held);
	held = new Promise((resolve) => {
		release = resolve;
	});
	await change('bitrix_id = 9');
	await see();
	const early = read(cursor);
	await expect.poll(() => state.queries).toBe(1);
	await change('bitrix_id = 7');
	await see();
	const late = read(cursor);
	await expect.poll(() => state.queries).toBe(2);
	release();
	await early;
	expect((await late).changes.length).toBe(2);
	expect((await read(cursor)).changes.length).toBe(2);
	expect(state.queries).toBe(2);
});

describe('stale memory is never served as current', () => {
	test('a change that nothing announced is served after a second, after one poll', async () => {
		const { state, read, cursor } = await openFeed();
		await change('bitrix_id = 7');
		state.now = 999;
		expect((await read(cursor)).changes.length).toBe(0);
		state.now = 10_000;
		for (const body of await Promise.all(Array.from({ length: 100 }, () => read(cursor))))
			expect(body.changes.length).toBe(1);
		expect(state.queries).toBe(1);
	});

	test('a newer cursor of another process makes this process query the database', async () => {
		const [one, other] = [await openFeed(), await openFeed()];
		await change('bitrix_id = 7');
		await one.see();
		const { cursor } = await one.read(one.cursor);
		await change('bitrix_id = 8');
		expect((await other.read(cursor)).changes.length).toBe(1);
	});
});

test('a failed query fails only the requests that waited for it: the next one queries again', async () => {
	let fails = false;
	const { see, read, cursor } = await openFeed(async () => {
		if (fails) throw new DatabaseError(undefined);
	});
	await change('bitrix_id = 7');
	await see();
	fails = true;
	await expect(read(cursor)).rejects.toBeInstanceOf(DatabaseError);
	await expect(read()).rejects.toBeInstanceOf(DatabaseError);
	fails = false;
	expect((await read(cursor)).changes.length).toBe(1);
	expect((await read()).changes.length).toBe(1000);
});

test('more than a page of changes is read from the table, page by page, each once', async () => {
	const { see, state, read, cursor } = await openFeed();
	await change('bitrix_id <= 2500');
	await see();
	const follow = async () => {
		let body = await read(cursor);
		let count = body.changes.length;
		for (; body.has_more; count += body.changes.length) body = await read(body.cursor);
		return count;
	};
	expect(await follow()).toBe(2500);
	const { queries } = state;
	expect(await follow()).toBe(2500);
	expect(state.queries).toBe(queries);
});

test('memory is bounded: a cursor older than the changes in memory is served from the table', async () => {
	const { see, state, read, cursor } = await openFeed();
	for (let page = 0; page < 11; page++) {
		await database.sql`
			insert into company_contacts (bitrix_id) select 1000000 + n from generate_series(${page}::int * 1000 + 1, ${page}::int * 1000 + 1000) n`;
		await see();
		await read(cursor, 1);
	}
	const { queries } = state;
	const { changes, has_more } = await read(cursor, 10);
	expect([changes.length, has_more, state.queries]).toEqual([10, true, queries + 1]);
	await database.sql`delete from company_contacts where bitrix_id > 1000000`;
});
