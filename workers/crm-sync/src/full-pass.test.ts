import { database, test } from '@contacts/testing/test.js';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import { readState } from './sync.sql.js';
import {
	confirmHeldDeletions,
	emptyMirror,
	makeContact,
	readMirror,
	type SyncHarness,
	startSync,
	troubleField,
} from './testing/portal.js';

let sync: SyncHarness;

beforeEach(async () => {
	sync = await startSync();
});
afterEach(async () => {
	await sync.close();
	await emptyMirror();
});

function fill(count: number): void {
	for (let n = 1; n <= count; n++) sync.standIn.add(makeContact(n));
}
const ids = async () => (await readMirror()).map((row) => row.bitrix_id);
const state = () => sync.session.run(readState);

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

test('readers see nothing of a pass until it is done', async () => {
	fill(200);
	const seen: number[] = [];
	sync.standIn.onRequest(async () => {
		seen.push((await ids()).length);
	});
	await sync.synchroniser.pass();
	expect(new Set(seen)).toEqual(new Set([0]));
	expect(await ids()).toHaveLength(200);
});

test('an interrupted pass continues after the last saved page', async () => {
	fill(170);
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
	expect(await ids()).toHaveLength(170);
});

describe('deletions', () => {
	beforeEach(async () => {
		fill(60);
		await sync.synchroniser.pass();
	});
	const all = () => [...sync.standIn.contacts.keys()];

	test('contacts deleted or merged in the CRM are looked up and then deleted', async () => {
		const [first = 0, second = 0, third = 0] = all();
		sync.standIn.remove(first);
		sync.standIn.merge(second, third);
		sync.standIn.requests.length = 0;
		expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ deleted: 2 });
		expect(await ids()).toEqual(all());
		const batch = sync.standIn.requests.filter(({ method }) => method === 'batch');
		expect(batch).toHaveLength(1);
	});

	test('a contact that is no longer readable stays, and an alarm is raised', async () => {
		const before = await readMirror();
		const hidden = new Set(all().slice(0, 3));
		sync.standIn.hide(({ id }) => hidden.has(id));
		expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ deleted: 0 });
		expect(await readMirror()).toEqual(before);
		expect((await state()).denied_contacts).toBe(3);
	});

	test.each([
		['all rights are gone', 60],
		['many rights are gone', 30],
	])('nothing is deleted when %s, and an alarm is raised until somebody confirms', async (_, hidden) => {
		const before = await readMirror();
		const { last_success_at: equalAt } = await state();
		for (const id of all().slice(0, hidden)) sync.standIn.remove(id);
		await sync.synchroniser.pass({ full: true });
		expect(await readMirror()).toEqual(before);
		expect(await state()).toMatchObject({ held_deletions: hidden, last_success_at: equalAt });

		// The mirror still has them, so it is not found equal to the CRM meanwhile.
		await sync.restart();
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'incremental' });
		expect((await state()).last_success_at).toBe(equalAt);

		await confirmHeldDeletions(sync);
		await sync.synchroniser.pass({ full: true });
		expect(await ids()).toEqual(all());
		expect((await state()).held_run).toBe(null);
		expect((await state()).last_success_at).toBeGreaterThan(equalAt ?? Number.NaN);
	});

	test('deletions are held back until the contacts are back, or a complete pass has deleted them', async () => {
		const { last_success_at: equalAt } = await state();
		sync.standIn.hide(() => true);
		await sync.synchroniser.pass({ full: true });
		sync.standIn.showAll();
		await sync.synchroniser.pass();
		expect((await state()).last_success_at).toBe(equalAt);
		await sync.synchroniser.pass({ full: true });
		const { held_run: run, last_success_at: equalAgainAt } = await state();
		expect(run).toBe(null);
		expect(equalAgainAt).toBeGreaterThan(equalAt ?? Number.NaN);

		for (const id of all().slice(0, 30)) sync.standIn.remove(id);
		await confirmHeldDeletions(sync);
		sync.standIn.faults.always({ kind: 'with-fields', values: { assignedById: undefined } });
		await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ name: 'IncompletePassError' });
		expect(await ids()).toHaveLength(60);
		sync.standIn.faults.clear();
		await sync.synchroniser.pass();
		expect(await state()).toMatchObject({
			held_deletions: 30,
			last_success_at: equalAgainAt,
		});
	});

	test('a contact that became a vendor of the catalogue is deleted; one that always was a vendor is never created', async () => {
		const [first = 0] = all();
		sync.standIn.update(first, { categoryId: 7 });
		sync.standIn.add({ ...makeContact(1), categoryId: 7 });
		await sync.synchroniser.pass({ full: true });
		expect(await ids()).toHaveLength(59);
	});

	test('a contact that is restored in the CRM is created again', async () => {
		const [first = 0] = all();
		sync.standIn.remove(first);
		await sync.synchroniser.pass({ full: true });
		sync.standIn.restore(first);
		await sync.synchroniser.pass({ full: true });
		expect(await ids()).toEqual(all().sort((a, b) => a - b));
	});
});

test('contacts whose links the portal does not return stay as they are', async () => {
	fill(60);
	await sync.synchroniser.pass();
	const before = await readMirror();
	for (const id of sync.standIn.contacts.keys()) sync.standIn.update(id, { lastName: 'New' });
	sync.standIn.faults.always({ kind: 'with-fields', values: { companyIds: undefined } });
	for (const full of [false, true])
		await expect(sync.synchroniser.pass({ full })).rejects.toMatchObject({ name: 'IncompletePassError' });
	expect(await readMirror()).toEqual(before);
});

test('a custom field that was deleted stops the pass before anything is overwritten', async () => {
	fill(60);
	await sync.synchroniser.pass();
	const before = await readMirror();
	await sync.restart();
	sync.standIn.removeField(troubleField);
	await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ code: `no_field_${troubleField}` });
	expect(await readMirror()).toEqual(before);
	expect((await state()).blocked_by).toBe(`no_field_${troubleField}`);
});
