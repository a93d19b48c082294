import { database, test } from '@contacts/testing/test.js';
import { afterEach, expect } from 'vitest';
import { requestContact, takeContactOutcome } from './inbox.sql.js';
import {
	emptyMirror,
	makeContact,
	readMirror,
	reasonField,
	type SyncHarness,
	startSync,
	troubleField,
} from './testing/portal.js';

let sync: SyncHarness;

afterEach(async () => {
	await sync.close();
	await emptyMirror();
});

const mirrored = async () => (await readMirror()).map((row) => row.bitrix_id);

test('a list that ignores the filter by category brings no vendor of the catalogue into the mirror', async () => {
	sync = await startSync();
	for (let n = 1; n <= 120; n++) sync.standIn.add({ ...makeContact(n), categoryId: n % 30 === 0 ? 7 : 0 });
	// A whole page of vendors is not the end of the list.
	for (let n = 1; n <= 60; n++) sync.standIn.add({ ...makeContact(n), categoryId: 7 });
	for (let n = 1; n <= 5; n++) sync.standIn.add(makeContact(n));
	const ordinary = [...sync.standIn.contacts.values()].filter(({ categoryId }) => !categoryId).map(({ id }) => id);
	sync.standIn.onRequest(({ params }) => void delete params.filter?.categoryId);
	await sync.synchroniser.pass();
	expect(await mirrored()).toEqual(ordinary);

	sync.clock.advance(3_600_000);
	for (const { id } of sync.standIn.contacts.values()) sync.standIn.update(id, { lastName: 'New' }, { touch: true });
	expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'incremental', created: 0, changed: ordinary.length });
	expect(await mirrored()).toEqual(ordinary);
});

test('a full pass over a portal that ignores the filter by category survives pauses, errors and a restart', async () => {
	sync = await startSync();
	for (let n = 1; n <= 170; n++) sync.standIn.add({ ...makeContact(n), categoryId: n % 3 === 0 ? 7 : 0 });
	const ordinary = [...sync.standIn.contacts.values()].filter(({ categoryId }) => !categoryId).map(({ id }) => id);
	sync.standIn.onRequest(({ params }) => void delete params.filter?.categoryId);
	const fail = (code: string) =>
		sync.standIn.faults.next({ kind: 'error', code }, { when: ({ params }) => Number(params.filter?.['>id']) > 60 });
	fail('OPERATION_TIME_LIMIT');
	await sync.synchroniser.pass();
	expect(await mirrored()).toEqual(ordinary);

	await database.sql`update crm_sync_state set last_full_at = null`;
	fail('INVALID_CREDENTIALS');
	await expect(sync.synchroniser.pass()).rejects.toMatchObject({ code: 'INVALID_CREDENTIALS' });
	expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'full', changed: 0, deleted: 0 });
	expect(await mirrored()).toEqual(ordinary);

	await database.sql`update crm_sync_state set last_full_at = null`;
	fail('INVALID_CREDENTIALS');
	await expect(sync.synchroniser.pass()).rejects.toMatchObject({ code: 'INVALID_CREDENTIALS' });
	await sync.restart();
	expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'full', changed: 0, deleted: 0 });
	expect(await mirrored()).toEqual(ordinary);
});

test('a page that is shortened by a deletion while the portal builds it is not the end of the list', async () => {
	sync = await startSync();
	for (let n = 1; n <= 170; n++) sync.standIn.add(makeContact(n));
	let deleted = 0;
	sync.standIn.onPage(([first]) => {
		if (deleted >= 3 || first === undefined) return;
		sync.standIn.remove(first);
		deleted++;
	});
	await sync.synchroniser.pass();
	expect(deleted).toBe(3);
	expect(await mirrored()).toEqual([...sync.standIn.contacts.keys()]);
});

test.each([
	['repeats its first page', 'rows_out_of_order', (filter: Record<string, unknown>) => void delete filter['>id']],
	['lists in no order', 'rows_out_of_order', undefined],
] as const)('a portal that %s changes nothing', async (_, code, change) => {
	sync = await startSync();
	for (let n = 1; n <= 120; n++) sync.standIn.add(makeContact(n));
	await sync.synchroniser.pass();
	const before = await readMirror();
	for (const id of [...sync.standIn.contacts.keys()].slice(0, 5)) sync.standIn.remove(id);
	sync.standIn.onRequest(({ params }) => {
		if (Number(params.start) >= 0) return;
		if (change === undefined) params.order = { id: 'DESC' };
		else change(params.filter ?? {});
	});
	await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ code });
	expect(await readMirror()).toEqual(before);
});

test.each(['constructor', 'toString', '__proto__', 'deleted'])(
	'an error code that is the name of a property or of a result (%s) is an unknown code',
	async (code) => {
		sync = await startSync();
		for (let n = 1; n <= 60; n++) sync.standIn.add(makeContact(n));
		await sync.synchroniser.pass();
		const before = await readMirror();
		const [first = 0] = sync.standIn.contacts.keys();
		sync.standIn.remove(first);
		sync.standIn.faults.always({ kind: 'error', code }, { method: 'crm.item.get', inBatch: true });
		expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ deleted: 0 });
		expect(await readMirror()).toEqual(before);

		const requests = sync.standIn.requests.length;
		sync.standIn.faults.always({ kind: 'error', code, status: 400 }, { inBatch: false });
		await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ kind: 'stop', code });
		expect(sync.standIn.requests).toHaveLength(requests + 1);
	},
);

test('a contact that a command has requested and that may not be read stays as it is', async () => {
	sync = await startSync();
	const { id } = sync.standIn.add(makeContact(1));
	await sync.synchroniser.pass();
	const before = await readMirror();
	sync.standIn.hide(() => true);
	await sync.session.run((sql) => requestContact(sql, id));
	await sync.synchroniser.events();
	expect(await sync.session.run((sql) => takeContactOutcome(sql, id))).toBe('denied');
	expect(await readMirror()).toEqual(before);
});

// An object with such a member can't be converted to a text.
const unreadable = { toString: 1 };

test.each<[string, unknown]>([
	[`ufCrm_${troubleField.slice(7)}`, unreadable],
	[`ufCrm_${troubleField.slice(7)}`, [[unreadable]]],
	[`ufCrm_${reasonField.slice(7)}`, [unreadable]],
	['name', unreadable],
	['assignedById', [unreadable]],
	['companyId', unreadable],
	['companyIds', [27, unreadable]],
	['fm', [{ id: 1, typeId: 'PHONE', valueType: 'WORK', value: unreadable }]],
	['fm', [{ id: unreadable, typeId: 'PHONE', valueType: unreadable, value: '+442079460101' }]],
	['fm', [unreadable, 'x']],
])('a contact with %s = %j stays as it is, and the run reads all others and is not complete', async (name, value) => {
	sync = await startSync();
	for (let n = 1; n <= 120; n++) sync.standIn.add(makeContact(n));
	await sync.synchroniser.pass();
	const before = await readMirror();
	const [first = 0, second = 0, third = 0] = sync.standIn.contacts.keys();
	sync.standIn.remove(third);
	for (const full of [false, true]) {
		sync.clock.advance(3_600_000);
		for (const id of [first, second]) sync.standIn.update(id, { lastName: `New ${full}`, raw: {} });
		sync.standIn.update(first, { raw: { [name]: value } });
		sync.standIn.add({ ...makeContact(1), raw: { [name]: value } });
		await expect(sync.synchroniser.pass({ full })).rejects.toMatchObject({ name: 'IncompletePassError' });
		const [unread, read] = await readMirror();
		expect(unread).toEqual(before[0]);
		expect(read?.name).toMatch(`New ${full}`);
		expect(await mirrored()).toEqual(before.map((row) => row.bitrix_id));
		expect(new Set(sync.unread.splice(0))).toEqual(new Set([full ? 'full' : 'incremental']));
	}
});
