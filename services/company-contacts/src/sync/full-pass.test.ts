import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readState } from './sync.sql.js';
import { expectedRow, makeContact, readMirror, type SyncHarness, startSync, troubleField } from './testing/portal.js';

let database: TestDatabase;
let sync: SyncHarness;

beforeEach(async () => {
	database = await createTestDatabase();
	sync = await startSync(database);
});
afterEach(async () => {
	await sync.close();
	await database.drop();
});

function fill(count: number): void {
	for (let n = 1; n <= count; n++) sync.standIn.add(makeContact(n));
}
const ids = async () => (await readMirror(database)).map((row) => row.bitrix_id);
const state = () => sync.session.run(readState);

test('25,000 contacts arrive exactly, in the fewest requests that paging allows, never over the limit, in level memory', async () => {
	fill(25_000);
	const heapBefore = process.memoryUsage().heapUsed;
	const outcome = await sync.synchroniser.pass();
	const heapGrowth = (process.memoryUsage().heapUsed - heapBefore) / 1_048_576;

	const mirror = await readMirror(database);
	expect(mirror).toHaveLength(25_000);
	const contacts = [...sync.standIn.contacts.keys()];
	for (const [index, row] of mirror.entries()) expect(row).toEqual(expectedRow(contacts[index] ?? 0, index + 1));

	// The fields, the count, 500 full pages, the comparison of the first, and the empty one that is the end.
	expect(outcome).toMatchObject({ kind: 'full', seen: 25_000, created: 25_000, changed: 0, deleted: 0, requests: 504 });
	expect(sync.standIn.requests).toHaveLength(504);
	expect(sync.standIn.blockedRequests).toBe(0);
	console.log(`heap grew by ${heapGrowth.toFixed(0)} MiB, with the stand-in in the same process`);
	expect(heapGrowth).toBeLessThan(400);
}, 120_000);

test('a second full pass changes nothing and keeps every id', async () => {
	fill(120);
	await sync.synchroniser.pass();
	const before = [
		...(await database.sql`select id, bitrix_id, updated_at, xmin::text from company_contacts order by id`),
	];
	expect(await sync.synchroniser.pass({ full: true })).toMatchObject({
		kind: 'full',
		created: 0,
		changed: 0,
		deleted: 0,
	});
	expect([
		...(await database.sql`select id, bitrix_id, updated_at, xmin::text from company_contacts order by id`),
	]).toEqual(before);
});

test('readers see nothing of a pass before it is done', async () => {
	fill(200);
	const seen: number[] = [];
	sync.standIn.onRequest(async () => {
		seen.push((await ids()).length);
	});
	await sync.synchroniser.pass();
	expect(new Set(seen)).toEqual(new Set([0]));
	expect(await ids()).toHaveLength(200);
});

test('a pass that was interrupted goes on behind the last page that was saved', async () => {
	fill(500);
	sync.standIn.faults.next({ kind: 'error', code: 'INVALID_CREDENTIALS' }, { when: ({ number }) => number === 7 });
	await expect(sync.synchroniser.pass()).rejects.toMatchObject({ code: 'INVALID_CREDENTIALS' });
	const { full_cursor: cursor } = await state();
	expect(cursor).toBeGreaterThan(0);
	expect(await ids()).toEqual([]);

	await sync.restart();
	const before = sync.standIn.requests.length;
	await sync.synchroniser.pass();
	const asked = sync.standIn.requests
		.slice(before)
		.map(({ params }) => (params as { filter?: { '>id'?: number } }).filter?.['>id']);
	expect(Math.min(...asked.filter((after) => after !== undefined))).toBe(cursor);
	expect(await ids()).toHaveLength(500);
});

describe('deletions', () => {
	beforeEach(async () => {
		fill(300);
		await sync.synchroniser.pass();
	});
	const all = () => [...sync.standIn.contacts.keys()];

	test('what was deleted or merged in the CRM disappears, and is asked for one by one before', async () => {
		const [first = 0, second = 0, third = 0] = all();
		sync.standIn.remove(first);
		sync.standIn.merge(second, third);
		sync.standIn.requests.length = 0;
		expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ deleted: 2 });
		expect(await ids()).toEqual(all());
		const batch = sync.standIn.requests.filter(({ method }) => method === 'batch');
		expect(batch).toHaveLength(1);
	});

	test('what can merely not be read any more stays, with an alarm', async () => {
		const before = await readMirror(database);
		const hidden = new Set(all().slice(0, 3));
		sync.standIn.hide(({ id }) => hidden.has(id));
		expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ deleted: 0 });
		expect(await readMirror(database)).toEqual(before);
		expect((await state()).alarm).toMatch(/^access_denied: 3 /);
	});

	test.each([
		['all rights are gone', 300],
		['many rights are gone', 30],
	])('nothing is deleted when %s, and an alarm is raised until somebody confirms', async (_, hidden) => {
		const before = await readMirror(database);
		for (const id of all().slice(0, hidden)) sync.standIn.remove(id);
		await sync.synchroniser.pass({ full: true });
		expect(await readMirror(database)).toEqual(before);
		expect((await state()).alarm).toMatch(/^mass_delete: /);

		await sync.synchroniser.pass({ full: true, confirmMassDelete: true });
		expect(await ids()).toEqual(all());
		expect((await state()).alarm).toBe(null);
	});

	test('a contact that became a vendor of the catalogue disappears; one that was always one never comes', async () => {
		const [first = 0] = all();
		sync.standIn.update(first, { categoryId: 7 });
		sync.standIn.add({ ...makeContact(1), categoryId: 7 });
		await sync.synchroniser.pass({ full: true });
		expect(await ids()).toHaveLength(299);
	});

	test('a contact that comes back keeps no old data and gets a place again', async () => {
		const [first = 0] = all();
		sync.standIn.remove(first);
		await sync.synchroniser.pass({ full: true });
		sync.standIn.restore(first);
		await sync.synchroniser.pass({ full: true });
		expect(await ids()).toEqual(all().sort((a, b) => a - b));
	});
});

test('links that the portal did not tell stay as they are', async () => {
	fill(60);
	await sync.synchroniser.pass();
	const before = await readMirror(database);
	sync.standIn.faults.always({ kind: 'without-fields', fields: ['companyIds'] });
	await sync.synchroniser.pass({ full: true });
	expect(await readMirror(database)).toEqual(before);
});

test('a custom field that is gone stops everything before anything is overwritten', async () => {
	fill(60);
	await sync.synchroniser.pass();
	const before = await readMirror(database);
	await sync.restart();
	sync.standIn.removeField(troubleField);
	await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ code: `no_field_${troubleField}` });
	expect(await readMirror(database)).toEqual(before);
	expect((await state()).blocked_by).toBe(`no_field_${troubleField}`);
});
