import { database, test } from '@contacts/testing/test.js';
import { beforeEach, expect } from 'vitest';
import {
	error,
	expectedRow,
	makeContact,
	makeContacts,
	rowOf,
	type SyncHarness,
	startSync,
} from '../testing/harness.js';

let sync: SyncHarness;
const hour = 3_600_000;

beforeEach(async () => {
	// Only the CRM's clock may count: it differs by a day.
	sync = await startSync({ contacts: makeContacts(120), crmAheadMs: -24 * hour, utcOffset: '-09:30' });
	sync.clock.advance(hour);
	await sync.synchroniser.run();
	sync.clock.advance(hour);
	sync.standIn.requests.length = 0;
});

test('makes at most three requests, and reads and writes only new and changed contacts', async () => {
	const versions = async () => [...(await database.sql`select xmin::text from company_contacts order by bitrix_id`)];
	const before = await versions();
	const nothing = await sync.synchroniser.run();
	expect(nothing).toMatchObject({ kind: 'incremental', seen: 0 });
	expect(nothing.requests).toBeLessThanOrEqual(3);
	const [first = 0] = sync.ids();
	sync.standIn.update(first, { lastName: 'Changed' });
	const added = sync.standIn.add(makeContact(500));
	expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental', seen: 2, created: 1, changed: 1 });
	expect((await rowOf(first))?.name).toMatch(/Changed$/);
	expect(await rowOf(added.id)).toEqual(expectedRow(added.id, 500));
	expect((await versions()).slice(1, -1)).toEqual(before.slice(1));
});

test.each([
	['fails', error('OVERLOAD_LIMIT'), 'OVERLOAD_LIMIT'],
	['gets a first page without a time', { kind: 'without-time' }, 'no_portal_clock'],
] as const)('one that %s does not move the watermark: the next one reads everything since', async (_, fault, code) => {
	const { watermark, last_success_at } = await sync.state();
	const added = sync.standIn.add(makeContact(500));
	sync.standIn.faults.next(fault, { method: 'crm.item.list' });
	await expect(sync.synchroniser.run()).rejects.toMatchObject({ code });
	expect(await sync.state()).toMatchObject({ watermark, last_success_at });
	sync.standIn.faults.clear();
	expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental', seen: 1 });
	expect(await rowOf(added.id)).toEqual(expectedRow(added.id, 500));
	expect((await sync.state()).watermark).toBeGreaterThan(watermark ?? Number.NaN);
});
