import { database, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import { policies } from './bitrix24/rest-client.js';
import { readState, requestRun, saveBucket, takeRequest } from './sync.sql.js';
import { emptyMirror, makeContact, readMirror, type SyncHarness, startSync } from './testing/portal.js';

let sync: SyncHarness;

beforeEach(async () => {
	sync = await startSync();
	for (let n = 1; n <= 120; n++) sync.standIn.add(makeContact(n));
});
afterEach(async () => {
	await sync.close();
	await emptyMirror();
});

const all = () => [...sync.standIn.contacts.keys()];
const ids = async () => (await readMirror()).map((row) => row.bitrix_id);
const staged = async () => (await database.sql`select from crm_sync_staging`).length;
/** The contacts after which pages were requested, since a given request. */
const pagesSince = (first: number) =>
	sync.standIn.requests
		.slice(first)
		.flatMap(({ params }) => (params as { filter?: { '>id'?: number } }).filter?.['>id'] ?? []);

/** The webhook's user loses its rights after the first page. */
function loseRightsInMidPass(): void {
	let pages = 0;
	const undo = sync.standIn.onRequest(({ params }) => {
		if (params.filter?.['>id'] === undefined || ++pages !== 2) return;
		sync.standIn.hide(() => true);
		undo();
	});
}

/** Ends in the middle of a full pass, like a stopped process. */
async function interrupt(): Promise<void> {
	sync.standIn.faults.next({ kind: 'error', code: 'INVALID_CREDENTIALS' }, { when: ({ number }) => number === 5 });
	await expect(sync.synchroniser.pass()).rejects.toMatchObject({ code: 'INVALID_CREDENTIALS' });
	expect(await staged()).toBeGreaterThan(0);
}

describe('an incomplete full pass', () => {
	test.each([true, false])('is discarded: the next one begins at the first contact (requested: %s)', async (full) => {
		loseRightsInMidPass();
		await expect(sync.synchroniser.pass()).rejects.toMatchObject({ name: 'IncompletePassError' });
		expect(await staged()).toBe(0);
		expect(await sync.session.run(readState)).toMatchObject({ full_begun_at: null, full_cursor: null });

		sync.standIn.showAll();
		const before = sync.standIn.requests.length;
		expect(await sync.synchroniser.pass({ full })).toMatchObject({ kind: 'full', created: 120 });
		expect(Math.min(...pagesSince(before))).toBe(0);
		expect(await ids()).toEqual(all());
	});

	test('stays due', async () => {
		await sync.synchroniser.pass();
		sync.clock.advance(25 * 3_600_000);
		loseRightsInMidPass();
		await expect(sync.synchroniser.pass()).rejects.toMatchObject({ name: 'IncompletePassError' });
		sync.standIn.showAll();
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'full' });
	});
});

describe('a requested full pass', () => {
	test('begins at the first contact, even after an interrupted pass', async () => {
		await interrupt();
		const [first = 0] = all();
		sync.standIn.update(first, { lastName: 'Changed since' }, { touch: false });
		const before = sync.standIn.requests.length;
		await sync.synchroniser.pass({ full: true });
		expect(Math.min(...pagesSince(before))).toBe(0);
		expect((await readMirror())[0]?.name).toMatch(/Changed since$/);
	});

	test('is read once, even with a rate-limit pause in its middle', async () => {
		await interrupt();
		const before = sync.standIn.requests.length;
		sync.standIn.faults.next(
			{ kind: 'error', code: 'OPERATION_TIME_LIMIT', status: 429 },
			{ when: ({ params }) => Number(params.filter?.['>id']) > 50 },
		);
		await sync.synchroniser.pass({ full: true });
		expect(pagesSince(before).filter((after) => after === 0)).toHaveLength(1);
	});
});

test('a requested pass continues an interrupted full pass, and then reads what has changed since that pass began', async () => {
	sync.clock.advance(3_600_000);
	await interrupt();
	const [first = 0] = all();
	sync.clock.advance(3_600_000);
	sync.standIn.update(first, { lastName: 'Changed since' });
	await sync.restart();
	const before = sync.standIn.requests.length;
	await sync.session.run((sql) => requestRun(sql, 'incremental'));
	const { requestedAt } = (await sync.session.run(takeRequest)) ?? {};
	expect(await sync.synchroniser.pass(requestedAt === undefined ? {} : { requestedAt })).toMatchObject({
		kind: 'full',
		seen: 121,
		created: 120,
		changed: 1,
	});
	expect(pagesSince(before)[0]).toBeGreaterThan(0);
	expect((await readMirror())[0]?.name).toMatch(/Changed since$/);
});

test('a transaction that reads the staging table, as a dump does, does not block a full pass', async () => {
	await sync.synchroniser.pass();
	const reader = postgres(database.url, { max: 1 });
	await reader`begin isolation level repeatable read read only`;
	await reader`select count(*) from crm_sync_staging`;
	try {
		const [first = 0] = all();
		sync.standIn.remove(first);
		await sync.session.run((sql) => sql`set lock_timeout = '1s'`);
		expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ deleted: 1 });
		expect(await staged()).toBe(0);
	} finally {
		await reader.end({ timeout: 0 });
	}
});

test('a synchroniser whose saved arrival is far ahead of its clock starts at once', async () => {
	await sync.session.run((sql) => saveBucket(sql, sync.clock.now() + 6 * 3_600_000));
	await sync.restart();
	const begun = sync.clock.now();
	const { requests } = await sync.synchroniser.pass();
	const { perSecond, burst } = policies.standard;
	expect(sync.clock.now() - begun).toBeLessThanOrEqual(requests * Math.ceil(1000 / perSecond));
	const { bucket_arrival: arrival } = await sync.session.run(readState);
	expect(arrival).toBeLessThanOrEqual(sync.clock.now() + (burst * 1000) / perSecond);
});
