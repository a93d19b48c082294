import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeContact, readMirror, type SyncHarness, startSync } from './testing/portal.js';

let database: TestDatabase;
let sync: SyncHarness;

beforeAll(async () => {
	database = await createTestDatabase();
	sync = await startSync(database);
});
afterAll(async () => {
	await sync?.close();
	await database?.drop();
});

test('a contact that is changed between the list and its item is mirrored as it is, and the list still counts as whole', async () => {
	const { standIn, synchroniser } = sync;
	for (let n = 1; n <= 60; n++) standIn.add(makeContact(n));
	const [id = 0] = standIn.contacts.keys();
	let isChanged = false;
	standIn.onRequest(({ method }) => {
		if (method !== 'batch' || isChanged) return;
		isChanged = true;
		standIn.update(id, { name: 'Changed', secondName: '', lastName: null, companyIds: [9001, 9002] });
	});
	await synchroniser.pass();
	expect(isChanged).toBe(true);
	expect(standIn.requests.map(({ method }) => method)).not.toContain('crm.contact.list');
	expect((await readMirror(database)).find((row) => row.bitrix_id === id)).toMatchObject({
		name: 'Changed',
		company_ids: '9001,9002',
	});
});
