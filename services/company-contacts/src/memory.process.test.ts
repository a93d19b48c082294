import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Database, openDatabase } from '@contacts/common/database/database.js';
import { startDeadline } from '@contacts/common/database/deadline.js';
import { database as db, test } from '@contacts/testing/test.js';
import { Registry } from 'prom-client';
import { expect, onTestFinished } from 'vitest';
import { createChangeFeed } from './changes/change-feed.js';
import { createListCache } from './list-cache.js';
import { streamList } from './list-stream.js';
import { openManualPoll, openSeenPoll } from './testing/manual-poll.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Companies of each kind: 1 to 1000 have one contact each, 10,001 to 11,000 have twelve. */
const companies = 1000;
const warm = 100;

test.beforeAll(async () => {
	await db.sql`
		insert into company_contacts (bitrix_id, name, company_ids)
		select n, 'Contact ' || n, array[n] from generate_series(1, ${companies}::int) n
		union all
		select 10000 + n, 'Contact ' || n, array[10001 + n % ${companies}::int] from generate_series(1, 12 * ${companies}::int) n`;
	await db.sql`analyze company_contacts`;
});

function open(): Database {
	const database = openDatabase({
		url: db.url,
		applicationName: 'memory',
		poolSize: 4,
		clock: () => performance.now(),
	});
	onTestFinished(() => database.close());
	return database;
}

/** The memory that is in use after a collection of garbage, in bytes. */
async function usedBytes(): Promise<number> {
	// The finalizers of one collection release what the next one frees.
	for (let round = 0; round < 3; round++) {
		collectGarbage();
		await new Promise(setImmediate);
	}
	const { heapUsed, external } = process.memoryUsage();
	return heapUsed + external;
}

async function inParallel(count: number, work: (index: number) => Promise<unknown>): Promise<void> {
	let next = 0;
	const worker = async () => {
		while (next < count) await work(next++);
	};
	await Promise.all(Array.from({ length: 8 }, worker));
}

test.for([
	['without contacts', 1_000_000, ['identity']],
	['with one contact', 1, ['identity']],
	['with twelve contacts in three encodings', 10_001, ['identity', 'gzip', 'br']],
] as const)('lists of companies %s take no more memory than list_cache_bytes', async ([kind, first, encodings]) => {
	const registry = new Registry();
	const { poll } = openManualPoll();
	const cache = createListCache({
		database: open(),
		poll,
		registry,
		maxBytes: 100_000_000,
		maxListBytes: 1_000_000,
	});
	const state = await poll.confirm(20_000);
	const read = async (index: number) => {
		const { representations } = await cache.read(String(first + index), state, startDeadline(4000));
		for (const encoding of encodings) await representations?.get(encoding);
	};
	const counted = async () => (await registry.getSingleMetric('list_cache_bytes')?.get())?.values[0]?.value ?? 0;

	// The first lists also take what every later one uses again.
	await inParallel(warm, read);
	const before = { used: await usedBytes(), counted: await counted() };
	await inParallel(companies, read);
	const used = (await usedBytes()) - before.used;
	const said = (await counted()) - before.counted;
	const added = companies - warm;
	console.log(`${kind}: ${Math.round(used / added)} bytes each, counted as ${Math.round(said / added)}`);
	// Twice as much, for what else this process keeps meanwhile.
	expect(used).toBeLessThan(said * 2);
	expect(cache.find(String(first), state)).toBeDefined();
});

test('the responses of the change feed take at most 16 MB of memory', async () => {
	const { poll } = openManualPoll();
	const feed = createChangeFeed({ database: open(), poll, registry: new Registry() });
	const state = await poll.confirm(20_000);
	let cursor: string | undefined;
	for (let hasMore = true; hasMore; ) {
		const page = await (await feed.read(cursor, 1000, state, startDeadline(4000))).get('identity');
		({ cursor, has_more: hasMore } = JSON.parse(String(page.body)));
	}
	await feed.read(cursor, 1, state, startDeadline(4000));
	const before = await usedBytes();
	// Another limit is another response, like another cursor.
	for (let limit = 2; limit <= 40_000; limit++) await feed.read(cursor, limit, state, startDeadline(4000));
	const used = (await usedBytes()) - before;
	console.log(`${Math.round(used / 1_000_000)} MB after 40,000 responses`);
	expect(used).toBeLessThan(24_000_000);
	expect(feed.find(cursor, 40_000, state)).toBeDefined();
});

test('a response of the change feed counts in every encoding: one that takes more than 16 MB in all is not kept', async () => {
	const { poll, see } = openManualPoll();
	const feed = createChangeFeed({ database: open(), poll, registry: new Registry() });
	const read = async (cursor?: string) => feed.read(cursor, 1000, await poll.confirm(20_000), startDeadline(4000));
	const find = async () => feed.find(cursor, 1000, await poll.confirm(20_000));
	const lastCursor = async (cursor?: string): Promise<string> => {
		const page = JSON.parse(String((await (await read(cursor)).get('identity')).body));
		return page.has_more ? lastCursor(page.cursor) : page.cursor;
	};
	const cursor = await lastCursor();
	// 9 MB, which can be compressed to half.
	await db.sql`
		insert into company_contacts (bitrix_id, perplexity_reason)
		select 100000 + n, (select string_agg(md5(n || ' ' || part), '') from generate_series(1, 312) part)
		from generate_series(1, 900) n`;
	await see();
	const response = await read(cursor);
	expect(await find()).toBe(response);
	await response.get('br');
	await response.get('gzip');
	expect(await find()).toBe(undefined);
});

test('a list that is streamed takes no more memory at its end than at its beginning', async () => {
	await db.sql`
		insert into company_contacts (bitrix_id, company_ids, perplexity_reason)
		select 200000 + n, array[20_000], repeat(md5(n::text), 16) from generate_series(1, 30000) n`;
	const poll = await openSeenPoll();
	const { body } = await streamList(
		{ database: open(), poll, keyRing: { isLive: () => true } },
		{
			companyId: '20000',
			encoding: 'identity',
			project: { id: 1, keyId: 1, code: 'any', isSandbox: false },
			deadline: startDeadline(4000),
		},
	);
	let [read, first, last] = [0, 0, 0];
	for await (const chunk of body) {
		read += chunk.length;
		if (first === 0 && read > 3_000_000) first = await usedBytes();
		if (last === 0 && read > 17_000_000) last = await usedBytes();
	}
	console.log(`${Math.round((last - first) / 1000)} KB for 14 MB`);
	expect(last - first).toBeLessThan(4_000_000);
});
