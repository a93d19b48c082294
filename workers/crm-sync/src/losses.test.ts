import { database, test } from '@contacts/testing/test.js';
import { beforeEach, describe, expect } from 'vitest';
import { describeAlarms } from './mirror/alarms.js';
import {
	type ExpectedRow,
	makeContact,
	makeContacts,
	readMirror,
	rowOf,
	type SyncHarness,
	startSync,
	storeEvents,
} from './testing/harness.js';

let sync: SyncHarness;
let before: ExpectedRow[];
const hour = 3_600_000;
const full = () => sync.synchroniser.run({ full: true });
const ids = (count: number) => sync.ids().slice(0, count);
const emptied = (rows: ExpectedRow[]) => rows.map((row) => ({ ...row, phone: null, company_ids: null }));
const batches = () => sync.standIn.requests.filter(({ method }) => method === 'batch').length;

/** The CRM returns no phones and companies of so many contacts any more, whatever it says of them elsewhere. */
function lose(count: number, touch = false): void {
	for (const id of ids(count)) sync.standIn.update(id, { raw: { fm: [], companyIds: [] } }, { touch });
}
/** The same, and nothing in the row contradicts it: somebody has removed them, or nobody may see them. */
function clear(count: number, touch = false): void {
	for (const id of ids(count)) sync.standIn.update(id, { phones: [], companyIds: [] }, { touch });
}
const restore = (count: number) => {
	for (const id of ids(count)) sync.standIn.update(id, { raw: {} }, { touch: false });
};

describe('a mirror of 120 contacts', () => {
	beforeEach(async () => {
		sync = await startSync();
		// Of each of them the CRM knows a phone and two companies.
		for (let n = 1; n <= 120; n++) sync.standIn.add({ ...makeContact(1), lastName: `${n}`, companyIds: [27, 31] });
		await sync.synchroniser.run();
		before = await readMirror();
		sync.clock.advance(hour);
		sync.standIn.requests.length = 0;
	});

	test.each([lose, clear])(
		'believes that twenty contacts have no phones and companies any more: %o',
		async (change) => {
			change(20);
			const removed = sync.ids().at(-1) ?? 0;
			const { last_success_at: equalAt } = await sync.state();
			expect(await full()).toMatchObject({ changed: 20, isHeld: false });
			expect(await readMirror()).toEqual([...emptied(before.slice(0, 20)), ...before.slice(20)]);
			expect((await sync.state()).last_success_at).toBeGreaterThan(equalAt ?? Number.NaN);
			sync.standIn.remove(removed);
			expect(await full()).toMatchObject({ deleted: 1 });
		},
	);

	test.each([lose, clear])(
		'keeps the phones and companies of more, whose other changes are visible, and does not count as equal to the CRM: %o',
		async (change) => {
			const { last_success_at: equalAt, watermark } = await sync.state();
			change(21);
			for (const id of ids(21)) sync.standIn.update(id, { lastName: 'New' }, { touch: false });
			expect(await full()).toMatchObject({ changed: 21, deleted: 0, isHeld: true, phones: { removed: 0 } });
			const names = (await readMirror()).map(({ name }) => name?.endsWith('New'));
			expect(names.filter(Boolean)).toHaveLength(21);
			expect((await readMirror()).map((row) => ({ ...row, name: '' }))).toEqual(
				before.map((row) => ({ ...row, name: '' })),
			);
			const state = await sync.state();
			expect(state).toMatchObject({
				held_deletions: 0,
				held_emptied: 21,
				unread_contacts: 0,
				last_success_at: equalAt,
			});
			expect(state.watermark).toBeGreaterThan(watermark ?? Number.NaN);
			expect(describeAlarms(state)).toEqual([
				expect.stringMatching(
					/^21 contacts have no phone or no companies there any more; .+ "contacts sync --confirm-mass-delete \d+"\.$/,
				),
			]);
		},
	);

	test('counts what is missing and what would become empty as one loss, and looks nobody up', async () => {
		clear(11);
		for (const id of sync.ids().slice(-10)) sync.standIn.remove(id);
		expect(await full()).toMatchObject({ changed: 0, deleted: 0, isHeld: true });
		expect(await readMirror()).toEqual(before);
		expect(await sync.state()).toMatchObject({ held_deletions: 10, held_emptied: 11 });
		expect(batches()).toBe(0);
		await sync.confirm();
		expect(await full()).toMatchObject({ changed: 11, deleted: 10, isHeld: false });
		expect(await readMirror()).toEqual([...emptied(before.slice(0, 11)), ...before.slice(11, -10)]);
		expect(await sync.state()).toMatchObject({ held_run: null, held_deletions: null, held_emptied: null });
	});

	test('takes a confirmation for no more than was held', async () => {
		clear(30);
		await full();
		await sync.confirm();
		clear(31);
		expect(await full()).toMatchObject({ changed: 0, isHeld: true });
		expect(await readMirror()).toEqual(before);
	});

	test('that holds something keeps it in incremental runs and events, which change everything else', async () => {
		clear(30);
		await full();
		const [first = 0, second = 0] = ids(2);
		clear(40, true);
		sync.standIn.update(first, { lastName: 'New', phones: [{ id: 1, valueType: 'WORK', value: '+442079460101' }] });
		expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental', changed: 1 });
		expect(await rowOf(first)).toMatchObject({ phone: '+442079460101', company_ids: '27,31' });
		expect((await readMirror()).slice(1)).toEqual(before.slice(1));

		sync.standIn.update(second, { companyIds: [99] }, { touch: false });
		await storeEvents(...sync.ids());
		expect(await sync.synchroniser.events()).toMatchObject({ changed: 1, deleted: 0 });
		expect(await rowOf(second)).toMatchObject({ phone: before[1]?.phone, company_ids: '99' });
		expect((await readMirror()).slice(2)).toEqual(before.slice(2));
		expect((await sync.state()).held_emptied).toBe(30);
	});

	test('publishes what was confirmed, although an event of it came during the run', async () => {
		clear(30);
		await full();
		await sync.confirm();
		let pages = 0;
		sync.standIn.onRequest(async ({ method }) => {
			if (method === 'crm.item.list' && ++pages === 3) await storeEvents(...ids(20));
		});
		await full();
		expect(await readMirror()).toEqual([...emptied(before.slice(0, 30)), ...before.slice(30)]);
	});

	test('holds nothing any more when the CRM returns the phones and companies again', async () => {
		lose(120);
		await full();
		restore(120);
		expect(await full()).toMatchObject({ changed: 0, isHeld: false });
		expect(await readMirror()).toEqual(before);
		expect((await sync.state()).held_run).toBe(null);
	});

	test('keeps a contact that would become empty and is not read completely as it is', async () => {
		clear(30);
		sync.standIn.update(ids(1)[0] ?? 0, { raw: { assignedById: undefined } }, { touch: false });
		await expect(full()).rejects.toMatchObject({ name: 'IncompleteRunError' });
		expect(await readMirror()).toEqual(before);
		expect(await sync.state()).toMatchObject({ held_emptied: 29, unread_contacts: 1 });
	});

	test('shows partners nothing of a right that was taken away for a third of the contacts, and asks for none of them', async () => {
		const hidden = new Set(ids(40));
		sync.standIn.hide(({ id }) => hidden.has(id));
		// The fields, the categories, the count, two pages and the empty one: as many as there are without it.
		expect(await full()).toMatchObject({ isHeld: true, deleted: 0, requests: 6 });
		expect(await readMirror()).toEqual(before);
		expect((await sync.state()).held_deletions).toBe(40);
	});

	test.each([
		['that is lost without a word', { fm: [], hasPhone: 'N' }, 7],
		// A row that contradicts itself is looked up.
		['that contradicts another one', { fm: [] }, 10],
	])('shows partners nothing of a field %s', async (_, raw, requests) => {
		for (const id of sync.ids()) sync.standIn.update(id, { raw }, { touch: false });
		expect(await full()).toMatchObject({ isHeld: true, changed: 0, requests });
		expect(await readMirror()).toEqual(before);
		expect((await sync.state()).held_emptied).toBe(120);
	});

	test('holds what our own mapping would take away, too', async () => {
		for (const id of sync.ids())
			sync.standIn.update(id, { phones: [{ id: 1, valueType: 'WORK', value: '?' }] }, { touch: false });
		await database.sql`update crm_sync_state set configuration = jsonb_set(configuration, '{mapping_version}', '1')`;
		await sync.restart();
		expect(await sync.synchroniser.run()).toMatchObject({ kind: 'full', isHeld: true });
		expect(await readMirror()).toEqual(before);
	});
});

test('a mirror of a few contacts does not lose the phones of all of them without a confirmation', async () => {
	sync = await startSync({ contacts: makeContacts(5) });
	await sync.synchroniser.run();
	before = await readMirror();
	clear(5);
	expect(await full()).toMatchObject({ isHeld: true, changed: 0 });
	expect(await readMirror()).toEqual(before);
	await sync.confirm();
	expect(await full()).toMatchObject({ isHeld: false, changed: 5 });
});
