import { database, test } from '@contacts/testing/test.js';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import { storeEvent } from './inbox.sql.js';
import { emptyMirror, makeContact, readMirror, type SyncHarness, startSync } from './testing/portal.js';

let sync: SyncHarness;
let changed: number;

beforeEach(async () => {
	sync = await startSync();
	for (let n = 1; n <= 120; n++) sync.standIn.add(makeContact(n));
	[changed = 0] = sync.standIn.contacts.keys();
	await sync.synchroniser.pass();
	// None of them is due.
	await database.sql`
		insert into crm_event_inbox (bitrix_id, event, retry_at)
		select 1000000 + n, 'ONCRMCONTACTADD', 'infinity' from generate_series(1, 100000) n`;
});
afterEach(async () => {
	await sync.close();
	await emptyMirror();
});

/** A contact that the pass has already read is changed, and its event is dropped. */
async function changeInMidPass(): Promise<void> {
	const undo = sync.standIn.onRequest(async ({ params }) => {
		if (!Number(params.filter?.['>id'])) return;
		undo();
		sync.standIn.update(changed, { companyIds: [4711] }, { touch: false });
		expect(await storeEvent(database.sql, changed, 'ONCRMCONTACTUPDATE')).toEqual([{ stored: false }]);
	});
}
const companies = async () => (await readMirror()).find((row) => row.bitrix_id === changed)?.company_ids;

describe('an event that is dropped in the middle of a full pass', () => {
	test('makes another full pass due', async () => {
		await changeInMidPass();
		await sync.synchroniser.pass({ full: true });
		expect(await companies()).not.toBe('4711');
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'full', changed: 1 });
		expect(await companies()).toBe('4711');
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'incremental' });
	});

	test('makes an interrupted pass start at the first contact', async () => {
		await changeInMidPass();
		sync.standIn.faults.next(
			{ kind: 'error', code: 'INVALID_CREDENTIALS' },
			{ when: ({ params }) => Number(params.filter?.['>id']) > 60 },
		);
		await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ code: 'INVALID_CREDENTIALS' });
		await sync.restart();
		await sync.synchroniser.pass();
		expect(await companies()).toBe('4711');
	});
});
