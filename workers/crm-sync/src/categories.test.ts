import { database, test } from '@contacts/testing/test.js';
import { beforeEach, describe, expect } from 'vitest';
import {
	error,
	interrupt,
	makeContact,
	makeContacts,
	mirroredIds,
	readMirror,
	type SyncHarness,
	startSync,
	storeEvents,
} from './testing/harness.js';

/** A category that somebody has added to the CRM. 7 is that of the catalogue's vendors. */
const added = { id: 9 };
const day = 24 * 3_600_000;

let sync: SyncHarness;
const full = () => sync.synchroniser.run({ full: true });
const askedForCategories = () => sync.standIn.requests.filter(({ method }) => method === 'crm.category.list').length;
const lastRun = async () =>
	(await database.sql`select kind, outcome from crm_sync_runs where kind <> 'events' order by id desc limit 1`)[0];

beforeEach(async () => {
	sync = await startSync({ contacts: makeContacts(120) });
	sync.standIn.categories.push({ ...added });
	for (let n = 1; n <= 5; n++) sync.standIn.add({ ...makeContact(n), categoryId: added.id });
	for (let n = 1; n <= 5; n++) sync.standIn.add({ ...makeContact(n), categoryId: 7 });
	await sync.synchroniser.run();
	sync.clock.advance(3_600_000);
	sync.standIn.requests.length = 0;
});

/** The IDs of the CRM's contacts, in the order in which the mirror has them. */
const idsOf = (...categories: number[]) =>
	[...sync.standIn.contacts.values()].flatMap(({ id, categoryId = 0 }) => (categories.includes(categoryId) ? id : []));

test('contacts of every category are mirrored but those of a system category, and one that moves keeps its row', async () => {
	expect(await mirroredIds()).toEqual(idsOf(0, added.id));
	const before = await readMirror();
	for (const id of sync.ids().slice(0, 30)) sync.standIn.update(id, { categoryId: added.id });
	expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental', changed: 0, deleted: 0 });
	expect(await full()).toMatchObject({ created: 0, changed: 0, deleted: 0 });
	expect(await readMirror()).toEqual(before);
});

test('the general category is not taken for a system one, even if the CRM calls it so', async () => {
	sync.standIn.categories.splice(0, 1, { id: 0, isSystem: true });
	for (const id of sync.ids().slice(0, 5)) sync.standIn.update(id, { lastName: 'New' });
	await storeEvents(...sync.ids().slice(0, 5));
	await sync.restart();
	expect(await sync.synchroniser.events()).toMatchObject({ changed: 5, deleted: 0 });
	expect(await full()).toMatchObject({ changed: 0, deleted: 0 });
});

test('more categories than fit on a page are all read', async () => {
	for (let id = 100; id < 160; id++) sync.standIn.categories.push({ id });
	sync.standIn.add({ ...makeContact(1), categoryId: 159 });
	await full();
	expect(await mirroredIds()).toEqual(idsOf(0, added.id, 159));
});

describe('a category that is added', () => {
	beforeEach(() => {
		sync.standIn.categories.push({ id: 12 });
		// No incremental run finds it: it has not changed since the last one.
		sync.standIn.add({ ...makeContact(1), categoryId: 12, updatedTime: new Date(sync.clock.now() - day) });
	});

	test('makes the next run a full one, until which the mirror does not count as equal to the CRM', async () => {
		const { last_success_at: equalAt } = await sync.state();
		sync.standIn.faults.next(error('INVALID_CREDENTIALS'), {
			when: ({ params }) => Number(params.filter?.['>id']) > 60,
		});
		await expect(sync.synchroniser.run()).rejects.toMatchObject({ code: 'INVALID_CREDENTIALS' });
		expect(await lastRun()).toEqual({ kind: 'full', outcome: 'INVALID_CREDENTIALS' });
		expect(await sync.state()).toMatchObject({ last_success_at: equalAt, last_full_at: null });
		await sync.restart();
		expect(await sync.synchroniser.run()).toMatchObject({ kind: 'full', created: 1 });
		expect(await mirroredIds()).toEqual(idsOf(0, added.id, 12));
		expect((await sync.state()).last_success_at).toBeGreaterThan(equalAt ?? Number.NaN);
		expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental' });
	});

	test('makes an interrupted full run begin with the first contact', async () => {
		sync.standIn.categories.pop();
		await interrupt(sync, { full: true });
		sync.standIn.categories.push({ id: 12 });
		sync.standIn.update(sync.ids()[0] ?? 0, { categoryId: 12 }, { touch: false });
		await sync.restart();
		expect(await sync.synchroniser.run()).toMatchObject({ kind: 'full', created: 1 });
		expect(await mirroredIds()).toEqual(idsOf(0, added.id, 12));
	});

	test('is read again for an event, once, and then its contacts are saved', async () => {
		const [known = 0, other = 0] = [sync.ids().at(-1), sync.ids().at(-2)];
		await storeEvents(known, other);
		expect(await sync.synchroniser.events()).toMatchObject({ created: 1 });
		expect(askedForCategories()).toBe(1);
		expect(await sync.synchroniser.run()).toMatchObject({ kind: 'full' });
	});
});

test('a contact in a category that the CRM does not list is unread: neither added nor deleted', async () => {
	sync.standIn.categories.pop();
	await sync.restart();
	const stored = await readMirror();
	const fresh = sync.standIn.add({ ...makeContact(1), categoryId: added.id });
	await storeEvents(fresh.id);
	expect(await sync.synchroniser.events()).toMatchObject({ created: 0, deleted: 0 });
	const before = askedForCategories();
	await expect(full()).rejects.toMatchObject({
		message: expect.stringContaining('unknown_category'),
		counts: { created: 0, deleted: 0, unread: 5 },
	});
	// At the beginning of the run, and for the first of these contacts.
	expect(askedForCategories() - before).toBe(2);
	expect(await readMirror()).toEqual(stored);
});

describe('a CRM that refuses to tell its categories', () => {
	test.each(['ERROR_METHOD_NOT_FOUND', 'ACCESS_DENIED', 'insufficient_scope'])(
		'with %s has its general one read; what is mirrored of others stays, and the log says so once',
		async (code) => {
			sync.standIn.faults.always(error(code), { method: 'crm.category.list' });
			const stored = await readMirror();
			const kept = idsOf(added.id);
			sync.standIn.add(makeContact(1));
			sync.standIn.add({ ...makeContact(2), categoryId: added.id });
			sync.standIn.remove(sync.ids()[0] ?? 0);
			await storeEvents(...kept);
			await sync.synchroniser.events();
			for (let run = 0; run < 2; run++) await full();
			expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental' });
			expect(await mirroredIds()).toEqual([...idsOf(0), ...kept].toSorted((a, b) => a - b));
			expect((await readMirror()).filter(({ bitrix_id: id }) => kept.includes(id))).toEqual(
				stored.filter(({ bitrix_id: id }) => kept.includes(id)),
			);
			expect(await sync.state()).toMatchObject({
				categories: [0],
				categories_refused_by: code.toUpperCase(),
				denied_contacts: kept.length,
				unread_contacts: 0,
			});
			expect(sync.log.filter((line) => line.includes('does not tell the categories'))).toHaveLength(1);

			sync.standIn.faults.clear();
			await sync.restart();
			expect(await sync.synchroniser.run()).toMatchObject({ kind: 'full', created: 1 });
			expect(await mirroredIds()).toEqual(idsOf(0, added.id));
			expect((await sync.state()).categories_refused_by).toBe(null);
		},
	);

	test.each(['INTERNAL_SERVER_ERROR', 'OVERLOAD_LIMIT', 'SOMETHING_NEW'])(
		'with another error (%s) fails the run, and nothing changes',
		async (code) => {
			const { categories } = await sync.state();
			sync.standIn.faults.always(error(code), { method: 'crm.category.list' });
			sync.standIn.add(makeContact(1));
			const stored = await readMirror();
			for (const run of [full, () => sync.synchroniser.run()]) await expect(run()).rejects.toMatchObject({ code });
			expect(await readMirror()).toEqual(stored);
			expect(await sync.state()).toMatchObject({ categories, categories_refused_by: null });
		},
	);

	test('because contacts have none there has only the general one', async () => {
		sync.standIn.categories.length = 0;
		for (const contact of sync.standIn.contacts.values()) contact.categoryId = 0;
		sync.standIn.faults.always(error('ENTITY_TYPE_NOT_SUPPORTED'), { method: 'crm.category.list' });
		await full();
		expect(await mirroredIds()).toEqual(sync.ids());
		expect((await sync.state()).categories_refused_by).toBe(null);
	});
});
