import type { Fault } from '@contacts/testing/bitrix24/stand-in.js';
import { test } from '@contacts/testing/test.js';
import { beforeEach, describe, expect } from 'vitest';
import {
	type ExpectedRow,
	error,
	makeContact,
	makeContacts,
	mirroredIds,
	readMirror,
	reasonField,
	rowOf,
	type SyncHarness,
	startSync,
	troubleField,
} from './testing/harness.js';

let sync: SyncHarness;

test('a list that ignores the filter by category brings no vendor of the catalogue into the mirror', async () => {
	sync = await startSync();
	for (let n = 1; n <= 120; n++) sync.standIn.add({ ...makeContact(n), categoryId: n % 3 === 0 ? 7 : 0 });
	// A whole page of vendors is not the end of the list.
	for (let n = 1; n <= 60; n++) sync.standIn.add({ ...makeContact(n), categoryId: 7 });
	for (let n = 1; n <= 5; n++) sync.standIn.add(makeContact(n));
	const ordinary = [...sync.standIn.contacts.values()].filter(({ categoryId }) => !categoryId).map(({ id }) => id);
	sync.standIn.onRequest(({ params }) => {
		if (params.start === -1) delete params.filter?.['@categoryId'];
	});
	await sync.synchroniser.run();
	expect(await mirroredIds()).toEqual(ordinary);
	sync.clock.advance(3_600_000);
	for (const id of sync.ids()) sync.standIn.update(id, { lastName: 'New' });
	expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental', created: 0, changed: ordinary.length });
});

test.each<[string, Fault | undefined]>([
	['not with two companies', undefined],
	[
		'not at the same time as in the list',
		{ kind: 'with-fields', values: { updatedTime: '2020-01-01T00:00:00+03:00' } },
	],
])('a list is not trusted as long as the CRM returned each contact %s', async (_, fault) => {
	sync = await startSync({ lists: { companyIds: 'first' } });
	const { id } = sync.standIn.add({ ...makeContact(1), companyIds: fault === undefined ? [27] : [27, 28] });
	if (fault !== undefined) sync.standIn.faults.always(fault, { method: 'crm.item.list' });
	for (let runs = 0; runs < 25; runs++) await sync.synchroniser.run();
	sync.standIn.update(id, { companyIds: [27, 31, 99] }, { touch: true });
	await sync.synchroniser.run();
	expect((await rowOf(id))?.company_ids).toBe('27,31,99');
});

test('a page that is shortened by a deletion while the CRM builds it is not the end of the list', async () => {
	sync = await startSync({ contacts: makeContacts(170) });
	let deleted = 0;
	sync.standIn.onPage(([first]) => {
		if (deleted >= 3 || first === undefined) return;
		sync.standIn.remove(first);
		deleted++;
	});
	await sync.synchroniser.run();
	expect(deleted).toBe(3);
	expect(await mirroredIds()).toEqual(sync.ids());
});

describe('what is stored stays', () => {
	let before: ExpectedRow[];

	beforeEach(async () => {
		sync = await startSync({ contacts: makeContacts(120), lists: { companyIds: 'absent' } });
		await sync.synchroniser.run();
		before = await readMirror();
		sync.standIn.requests.length = 0;
	});

	test.each(['repeats its first page', 'lists in no order'])('when a CRM %s', async (what) => {
		for (const id of sync.ids().slice(0, 5)) sync.standIn.remove(id);
		sync.standIn.onRequest(({ params }) => {
			if (Number(params.start) >= 0) return;
			if (what === 'lists in no order') params.order = { id: 'DESC' };
			else delete params.filter?.['>id'];
		});
		await expect(sync.synchroniser.run({ full: true })).rejects.toMatchObject({ code: 'rows_out_of_order' });
		expect(await readMirror()).toEqual(before);
	});

	test.each([true, false])(
		'of contacts with values that can’t be read; the others are read, none of them is deleted, and the run is not complete (full: %s)',
		async (full) => {
			// An object with such a member can't be converted to a text.
			const unreadable = { toString: 1 };
			const values: [string, unknown][] = [
				[`ufCrm_${troubleField.slice(7)}`, unreadable],
				[`ufCrm_${troubleField.slice(7)}`, [[unreadable]]],
				[`ufCrm_${reasonField.slice(7)}`, [unreadable]],
				['name', unreadable],
				['assignedById', [unreadable]],
				['assignedById', undefined],
				['companyId', unreadable],
				['companyIds', [27, unreadable]],
				['fm', [{ id: 1, typeId: 'PHONE', valueType: 'WORK', value: unreadable }]],
				['fm', [{ id: unreadable, typeId: 'PHONE', valueType: unreadable, value: '+442079460101' }]],
				['fm', [unreadable, 'x']],
			];
			sync.clock.advance(3_600_000);
			const { watermark, last_success_at } = await sync.state();
			for (const [index, id] of sync.ids().entries()) {
				const [name, value] = values[index] ?? [];
				sync.standIn.update(id, { lastName: 'New', raw: name === undefined ? {} : { [name]: value } });
			}
			const removed = sync.ids().at(-1) ?? 0;
			sync.standIn.remove(removed);
			sync.standIn.add({ ...makeContact(1), raw: { name: unreadable } });
			await expect(sync.synchroniser.run({ full })).rejects.toMatchObject({ name: 'IncompleteRunError' });
			const rows = await readMirror();
			const count = values.length;
			expect(rows.slice(0, count)).toEqual(before.slice(0, count));
			const others = rows.slice(count).filter(({ bitrix_id }) => bitrix_id !== removed);
			expect(others).toHaveLength(119 - count);
			expect(others.every(({ name }) => name?.endsWith('New'))).toBe(true);
			// Only a full run looks for deletions.
			expect(rows.slice(count + others.length)).toEqual(full ? [] : before.slice(-1));
			expect(await sync.state()).toMatchObject({ watermark, last_success_at, blocked_by: null });
			expect(sync.unread).toEqual(Array(count + 1).fill(full ? 'full' : 'incremental'));
		},
	);

	describe.each([true, false])('of companies that a list does not return (full run: %s)', (full) => {
		const get = { method: 'crm.item.get', inBatch: true };

		test('where the look-up is refused', async () => {
			const { watermark } = await sync.state();
			const code = 'OVERLOAD_LIMIT';
			sync.standIn.faults.always(error(code), get);
			await expect(sync.synchroniser.run({ full })).rejects.toMatchObject({ code });
			expect(await readMirror()).toEqual(before);
			expect(await sync.state()).toMatchObject({ blocked_by: code, watermark });
		});

		test('where the look-up of one contact fails, until it succeeds', async () => {
			const [first = 0, second = 0] = sync.ids();
			for (const id of [first, second]) sync.standIn.update(id, { companyIds: [4711] }, { touch: true });
			sync.standIn.faults.always(error('SOMETHING_NEW'), { ...get, when: ({ params }) => Number(params.id) === first });
			await expect(sync.synchroniser.run({ full })).rejects.toMatchObject({ name: 'IncompleteRunError' });
			expect(await rowOf(first)).toEqual(before[0]);
			expect((await rowOf(second))?.company_ids).toBe('4711');
			sync.standIn.faults.clear();
			await sync.synchroniser.run({ full: true });
			expect((await rowOf(first))?.company_ids).toBe('4711');
		});
	});
});

describe('a CRM that is slow', () => {
	const tooSlow: Fault = { kind: 'html', status: 504 };
	/** For batches of crm.item.get that fulfil this. */
	const failBatches = (when: (commands: string[]) => boolean) =>
		sync.standIn.faults.always(tooSlow, {
			method: 'batch',
			when: ({ params }) => when(Object.values(params.cmd as Record<string, string>)),
		});

	const timeouts = () => sync.standIn.requests.filter(({ status }) => status === 504).length;

	beforeEach(async () => {
		sync = await startSync({ contacts: makeContacts(120), lists: { companyIds: 'absent' } });
	});

	test('at one contact leaves it as it is and has the others read, after eight timeouts, and the mirror does not count as equal to the CRM', async () => {
		await sync.synchroniser.run();
		const [first, before] = await readMirror();
		const { last_success_at: equalAt } = await sync.state();
		const slow = before?.bitrix_id ?? 0;
		for (const id of sync.ids()) sync.standIn.update(id, { lastName: 'New' }, { touch: false });
		sync.standIn.requests.length = 0;
		failBatches((commands) => commands.some((command) => command.endsWith(`&id=${slow}`)));
		await expect(sync.synchroniser.run({ full: true })).rejects.toMatchObject({ counts: { changed: 119, unread: 1 } });
		const rows = await readMirror();
		expect(rows[1]).toEqual(before);
		expect(rows[0]).not.toEqual(first);
		expect(timeouts()).toBe(8);
		expect(await sync.state()).toMatchObject({ last_success_at: equalAt, unread_contacts: 1, blocked_by: null });
	});

	test('at every contact is down: the run fails after five timeouts, nothing changes, and no contact is said to be unread', async () => {
		await sync.synchroniser.run();
		const before = await readMirror();
		for (const id of sync.ids()) sync.standIn.update(id, { lastName: 'New' }, { touch: false });
		sync.standIn.requests.length = 0;
		failBatches(() => true);
		await expect(sync.synchroniser.run({ full: true })).rejects.toMatchObject({ code: 'not_json_504' });
		expect(await readMirror()).toEqual(before);
		expect(timeouts()).toBe(5);
		expect(sync.unread).toEqual([]);
		expect((await sync.state()).blocked_by).toBe('not_json_504');
	});
});

test('a row of a list that contradicts itself is looked up alone', async () => {
	sync = await startSync();
	for (let n = 1; n <= 21; n++) sync.standIn.add({ ...makeContact(1), lastName: `${n}`, companyIds: [27, 31] });
	for (let n = 1; n <= 99; n++) sync.standIn.add(makeContact(n));
	await sync.synchroniser.run();
	sync.standIn.update(1, { raw: { fm: [], companyIds: [] } }, { touch: false });
	await sync.synchroniser.run({ full: true });
	const batches = sync.standIn.requests.filter(({ method }) => method === 'batch').slice(-1);
	expect(batches.map(({ calls }) => calls?.map(({ params }) => params.id))).toEqual([['1']]);
	expect(await rowOf(1)).toMatchObject({ phone: null, company_ids: null });
});

test('a contact that is deleted while its page is completed does not stop the run', async () => {
	sync = await startSync({ contacts: makeContacts(70), lists: { companyIds: 'absent' } });
	await sync.synchroniser.run();
	const undo = sync.standIn.onRequest(({ method }) => {
		if (method !== 'batch') return;
		undo();
		sync.standIn.remove(sync.ids()[0] ?? 0);
	});
	expect(await sync.synchroniser.run({ full: true })).toMatchObject({ deleted: 1 });
	expect(await mirroredIds()).toEqual(sync.ids());
});
