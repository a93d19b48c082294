import { database, test } from '@contacts/testing/test.js';
import { afterEach, beforeEach, expect } from 'vitest';
import { emptyMirror, makeContact, readMirror, type SyncHarness, startSync } from './testing/portal.js';

let sync: SyncHarness;

beforeEach(async () => {
	sync = await startSync();
	for (let n = 1; n <= 120; n++) sync.standIn.add(makeContact(n));
	await sync.synchroniser.pass();
});
afterEach(async () => {
	await sync.close();
	await emptyMirror();
});

test('contacts that lack the same columns, named in another order, are saved at the end of a full pass', async () => {
	const [first = 0, second = 0] = sync.standIn.contacts.keys();
	sync.standIn.update(second, { companyIds: [9001] }, { touch: false });
	const fields = ['name', 'secondName', 'lastName', 'assignedById'];
	const classic = ['NAME', 'SECOND_NAME', 'LAST_NAME', 'ASSIGNED_BY_ID'];
	sync.standIn.faults.always({ kind: 'without-fields', fields: [...fields, ...classic] });
	sync.standIn.faults.next(
		{ kind: 'error', code: 'INVALID_CREDENTIALS' },
		{ when: ({ params }) => Number(params.filter?.['>ID'] ?? params.filter?.['>id']) > 60 },
	);
	await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ code: 'INVALID_CREDENTIALS' });
	const reversed = await database.sql`
		update crm_sync_staging
		set untold = array(select name from unnest(untold) with ordinality as given (name, place) order by place desc)
		where bitrix_id = ${first} and cardinality(untold) > 1 returning 1`;
	expect(reversed).toHaveLength(1);

	await expect(sync.synchroniser.pass()).rejects.toMatchObject({ name: 'IncompletePassError' });
	expect((await readMirror()).find((contact) => contact.bitrix_id === second)?.company_ids).toBe('9001');
});
