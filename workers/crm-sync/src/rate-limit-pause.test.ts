import type { Fault } from '@contacts/testing/bitrix24/stand-in.js';
import { database, test } from '@contacts/testing/test.js';
import { afterEach, beforeEach, expect } from 'vitest';
import { readState } from './sync.sql.js';
import { emptyMirror, makeContact, readMirror, type SyncHarness, startSync } from './testing/portal.js';

let sync: SyncHarness;
const paused: Fault = { kind: 'error', code: 'OPERATION_TIME_LIMIT', status: 429 };
const minute = 60_000;

beforeEach(async () => {
	sync = await startSync();
	for (let n = 1; n <= 170; n++) sync.standIn.add(makeContact(n));
	await sync.synchroniser.pass();
});
afterEach(async () => {
	await sync.close();
	await emptyMirror();
});

test('a full pass does not wait for a rate-limit pause of its events, which stay in the inbox', async () => {
	const [first = 0, second = 0] = sync.standIn.contacts.keys();
	sync.standIn.update(second, { lastName: 'Listed' }, { touch: false });
	await database.sql`insert into crm_event_inbox (bitrix_id, event) values (${first}, 'ONCRMCONTACTUPDATE')`;
	sync.standIn.faults.always(paused, { method: 'crm.item.get', inBatch: true });
	const begun = sync.clock.now();
	expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ changed: 1 });
	expect(sync.clock.now() - begun).toBeLessThan(30_000);
	expect(await database.sql`select from crm_event_inbox`).toHaveLength(1);

	// The events alone do not wait either, and block nothing.
	await expect(sync.synchroniser.events()).rejects.toMatchObject({ kind: 'pause' });
	expect(sync.clock.now() - begun).toBeLessThan(30_000);
	expect(await sync.session.run(readState)).toMatchObject({ blocked_by: null, blocked_until: null });

	sync.standIn.faults.clear();
	sync.clock.advance(11 * minute);
	await sync.synchroniser.events();
	expect(await database.sql`select from crm_event_inbox`).toHaveLength(0);
});

test('a pass that has taken longer than any pause still waits for one, and for another after more pages', async () => {
	const lastOf = new Set<unknown>();
	sync.standIn.onRequest(({ params }) => {
		const after = params.filter?.['>id'];
		if (after === undefined || lastOf.has(after)) return;
		lastOf.add(after);
		sync.clock.advance(10 * minute);
		if (Number(after) > 50) sync.standIn.faults.next(paused, { method: 'crm.item.list' });
	});
	const [first = 0] = sync.standIn.contacts.keys();
	sync.standIn.update(first, { lastName: 'New' }, { touch: false });
	expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ seen: 170, changed: 1 });
	expect((await readMirror())[0]?.name).toMatch(/New$/);
});

test('after a pause that ended the mirror is not blocked, even if the pass is incomplete then', async () => {
	sync.standIn.faults.next(paused, { method: 'crm.item.list' });
	sync.standIn.faults.next({ kind: 'empty-list' }, { when: ({ params }) => Number(params.filter?.['>id']) > 60 });
	await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ name: 'IncompletePassError' });
	expect(await database.sql`select blocked_by, blocked_until from crm_sync_state`).toEqual([
		{ blocked_by: null, blocked_until: null },
	]);
});

test('after a rate-limit pause, the incremental pass continues from its cursor', async () => {
	for (const id of sync.standIn.contacts.keys()) sync.standIn.update(id, { lastName: 'New' });
	sync.standIn.requests.length = 0;
	sync.standIn.faults.next(paused, {
		method: 'crm.item.list',
		when: ({ params }) => Number(params.filter?.['>id']) > 50,
	});
	const begun = sync.clock.now();
	expect(await sync.synchroniser.pass()).toMatchObject({ seen: 170, created: 0, changed: 170, deleted: 0 });
	expect(sync.standIn.faults.pending).toBe(0);
	const firstPages = sync.standIn.requests.filter(
		({ params }) => (params as { filter?: { '>id'?: number } }).filter?.['>id'] === 0,
	);
	expect(firstPages).toHaveLength(1);
	expect((await readMirror()).filter(({ name }) => name?.endsWith('New'))).toHaveLength(170);
	// Contacts that were read before the pause may have changed during it.
	expect(sync.clock.now() - begun).toBeGreaterThan(minute);
	expect((await sync.session.run(readState)).watermark).toBeLessThan(begun + minute / 2);
});
