import { test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { makeContact, readMirror, startSync } from './testing/portal.js';

test('a contact that changes between the list and its item is mirrored correctly, and the list still counts as complete', async () => {
	const sync = await startSync();
	onTestFinished(() => sync.close());
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
	expect((await readMirror()).find((row) => row.bitrix_id === id)).toMatchObject({
		name: 'Changed',
		company_ids: '9001,9002',
	});
});
