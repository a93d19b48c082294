import type { Fault } from '@contacts/testing/bitrix24/stand-in.js';
import { test } from '@contacts/testing/test.js';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import { readState } from './sync.sql.js';
import {
	type ExpectedRow,
	emptyMirror,
	makeContact,
	readMirror,
	type SyncHarness,
	startSync,
} from './testing/portal.js';

let sync: SyncHarness;
let before: ExpectedRow[];
const hour = 3_600_000;
const get = 'crm.item.get';

beforeEach(async () => {
	sync = await startSync({ lists: { companyIds: 'absent' } });
	for (let n = 1; n <= 70; n++) sync.standIn.add(makeContact(n));
	await sync.synchroniser.pass();
	before = await readMirror();
	sync.standIn.requests.length = 0;
});
afterEach(async () => {
	await sync.close();
	await emptyMirror();
});

const error = (code: string): Fault => ({ kind: 'error', code });
const ids = () => [...sync.standIn.contacts.keys()];
const rowOf = async (id: number) => (await readMirror()).find((row) => row.bitrix_id === id);
const state = () => sync.session.run(readState);

describe.each([true, false])('companies that a list does not return (full pass: %s)', (full) => {
	test('arrive after a rate-limit pause of their method', async () => {
		const [first = 0] = ids();
		sync.standIn.update(first, { companyIds: [4711, 4712] }, { touch: true });
		sync.standIn.faults.next(error('OPERATION_TIME_LIMIT'), { method: get, inBatch: true });
		const begun = sync.clock.now();
		await sync.synchroniser.pass({ full });
		expect(sync.clock.now() - begun).toBeGreaterThanOrEqual(30_000);
		expect((await rowOf(first))?.company_ids).toBe('4711,4712');
		expect(await state()).toMatchObject({ blocked_by: null });
	});

	test.each(['OVERLOAD_LIMIT', 'INVALID_CREDENTIALS', 'insufficient_scope'])(
		'do not count as none when the portal returns %s',
		async (code) => {
			const { watermark } = await state();
			sync.standIn.faults.always(error(code), { method: get, inBatch: true });
			await expect(sync.synchroniser.pass({ full })).rejects.toMatchObject({ code });
			expect(await readMirror()).toEqual(before);
			expect(await state()).toMatchObject({ blocked_by: code, watermark });
		},
	);

	test('arrive after temporary errors and rate limits of the portal', async () => {
		const [first = 0] = ids();
		sync.standIn.update(first, { companyIds: [4711, 4712] }, { touch: true });
		sync.standIn.faults.next(error('INTERNAL_SERVER_ERROR'), { method: get, inBatch: true, times: 2 });
		sync.standIn.faults.next(error('QUERY_LIMIT_EXCEEDED'), { method: get, inBatch: true, times: 2 });
		await sync.synchroniser.pass({ full });
		expect((await rowOf(first))?.company_ids).toBe('4711,4712');
	});

	test.each(['INTERNAL_SERVER_ERROR', 'SOMETHING_NEW'])(
		'that can’t be read (%s) are kept, nothing is deleted, and the pass fails',
		async (code) => {
			const [first = 0, second = 0, third = 0] = ids();
			const stored = before.find((row) => row.bitrix_id === first);
			for (const id of [first, second])
				sync.standIn.update(id, { lastName: 'New', companyIds: [4711] }, { touch: true });
			sync.standIn.remove(third);
			sync.clock.advance(hour);
			const { watermark, last_success_at: success } = await state();
			sync.standIn.faults.always(error(code), { method: get, when: ({ params }) => Number(params.id) === first });
			await expect(sync.synchroniser.pass({ full })).rejects.toMatchObject({ name: 'IncompletePassError' });

			expect(await rowOf(first)).toEqual(stored);
			expect(await rowOf(second)).toMatchObject({ name: expect.stringMatching(/New$/), company_ids: '4711' });
			expect(await rowOf(third)).toMatchObject({ bitrix_id: third });
			expect(await state()).toMatchObject({ watermark, last_success_at: success, blocked_by: null });
			expect(sync.unread).toEqual([full ? 'full' : 'incremental']);

			sync.standIn.faults.clear();
			await sync.synchroniser.pass({ full: true });
			expect((await rowOf(first))?.company_ids).toBe('4711');
			expect(await rowOf(third)).toBe(undefined);
		},
	);
});

test('when the companies of no contact can be read, all stay as they are', async () => {
	sync.standIn.faults.always(error('SOMETHING_NEW'), { method: get, inBatch: true });
	await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ name: 'IncompletePassError' });
	expect(await readMirror()).toEqual(before);
});

test('a contact that is deleted while its page is completed does not stop the pass', async () => {
	const [first = 0] = ids();
	let gone = false;
	sync.standIn.onRequest(({ method }) => {
		if (gone || method !== 'batch') return;
		gone = true;
		sync.standIn.remove(first);
	});
	expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ deleted: 1 });
	expect((await readMirror()).map((row) => row.bitrix_id)).toEqual(ids());
});
