import { database, test } from '@contacts/testing/test.js';
import { afterEach, beforeEach, expect } from 'vitest';
import { readState } from './sync.sql.js';
import { emptyMirror, makeContact, readMirror, type SyncHarness, startSync } from './testing/portal.js';

let sync: SyncHarness;

beforeEach(async () => {
	sync = await startSync();
	for (let n = 1; n <= 120; n++) sync.standIn.add(makeContact(n));
});
afterEach(async () => {
	await sync.close();
	await emptyMirror();
});

const databaseTime = async () => {
	const [row] = await database.sql<[{ at: number }]>`
		select (extract(epoch from clock_timestamp()) * 1000)::float8 as at`;
	return row.at;
};
const successAt = async () => (await sync.session.run(readState)).last_success_at;

test('after a resumed full pass, the mirror counts as equal to the CRM as of the beginning of that pass', async () => {
	sync.standIn.faults.next({ kind: 'error', code: 'INVALID_CREDENTIALS' }, { when: ({ number }) => number === 5 });
	const before = await databaseTime();
	await expect(sync.synchroniser.pass()).rejects.toMatchObject({ code: 'INVALID_CREDENTIALS' });
	const [first = 0] = sync.standIn.contacts.keys();
	const changedAt = await databaseTime();
	sync.standIn.update(first, { lastName: 'Changed since' });
	await sync.restart();
	expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'full' });
	expect((await readMirror())[0]?.name).not.toMatch(/Changed since$/);
	expect(await successAt()).toBeLessThanOrEqual(changedAt);
	expect(await successAt()).toBeGreaterThanOrEqual(before);
});

test('after an incremental pass, the mirror counts as equal to the CRM as of the beginning of that pass', async () => {
	await sync.synchroniser.pass();
	for (const id of sync.standIn.contacts.keys()) sync.standIn.update(id, { lastName: 'New' });
	const before = await databaseTime();
	let changedAt = Number.POSITIVE_INFINITY;
	sync.standIn.onRequest(async ({ params }) => {
		if (Number(params.filter?.['>id']) > 0) changedAt = Math.min(changedAt, await databaseTime());
	});
	expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'incremental', changed: 120 });
	expect(changedAt).toBeLessThan(Number.POSITIVE_INFINITY);
	expect(await successAt()).toBeLessThanOrEqual(changedAt);
	expect(await successAt()).toBeGreaterThanOrEqual(before);
});
