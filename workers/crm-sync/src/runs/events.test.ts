import type { Fault } from '@contacts/testing/bitrix24/stand-in.js';
import { database, test } from '@contacts/testing/test.js';
import { beforeEach, describe, expect } from 'vitest';
import { storeEvent } from '../mirror/inbox.sql.js';
import {
	error,
	expectedRow,
	makeContact,
	makeContacts,
	mirroredIds,
	rowOf,
	type SyncHarness,
	startSync,
	storeEvents,
} from '../testing/harness.js';

let sync: SyncHarness;
const hour = 3_600_000;

beforeEach(async () => {
	sync = await startSync({ contacts: makeContacts(60) });
	await sync.synchroniser.run();
	sync.standIn.requests.length = 0;
});

const waiting = async () => [
	...(await database.sql<{ id: number }[]>`select bitrix_id::float8 as id from crm_event_inbox order by 1`),
];
/** The CRM's response to a request for one contact by its ID. */
const failFor = (id: number, fault: Fault) =>
	sync.standIn.faults.always(fault, { method: 'crm.item.get', when: ({ params }) => Number(params.id) === id });

describe('events', () => {
	test('cause their contacts to be read again, fifty in a request', async () => {
		const [first = 0, second = 0, third = 0] = sync.ids();
		sync.standIn.update(first, { lastName: 'Event' });
		sync.standIn.remove(second);
		const added = sync.standIn.add(makeContact(600));
		await storeEvents(first, second, third, added.id, 999_999);
		expect(await sync.synchroniser.events()).toMatchObject({ seen: 5, created: 1, changed: 1, deleted: 1 });
		expect(sync.standIn.requests.map(({ method }) => method)).toEqual(['batch']);
		expect((await rowOf(first))?.name).toMatch(/Event$/);
		expect(await rowOf(second)).toBe(undefined);
		expect(await rowOf(added.id)).toEqual(expectedRow(added.id, 600));
		expect(await waiting()).toEqual([]);
	});

	test('of more than a thousand contacts are handled a thousand at a time, so that runs and requests do not wait for all', async () => {
		await storeEvents(...Array.from({ length: 1050 }, (_, index) => 10_000 + index));
		expect(await sync.synchroniser.events()).toMatchObject({ seen: 1000 });
		expect(await waiting()).toHaveLength(50);
		expect(await sync.synchroniser.events()).toMatchObject({ seen: 50 });
	});

	test.each(['now()', "now() + interval '1 hour'"])(
		'that arrive while their contact is read are not lost, although the clock was set back (received at %s)',
		async (receivedAt) => {
			const [first = 0] = sync.ids();
			await storeEvents(first);
			await database.sql`update crm_event_inbox set received_at = ${database.sql.unsafe(receivedAt)}`;
			let reads = 0;
			sync.standIn.onRequest(async () => {
				if (++reads === 1) await storeEvent(database.sql, first);
			});
			await sync.synchroniser.events();
			expect(reads).toBe(2);
			expect(await waiting()).toEqual([]);
		},
	);

	test('during a full run replace the staged contact', async () => {
		const [first = 0, second = 0] = sync.ids();
		let pages = 0;
		sync.standIn.onRequest(async ({ method }) => {
			if (method !== 'crm.item.list' || ++pages !== 3) return;
			sync.standIn.update(first, { lastName: 'Newer' });
			sync.standIn.remove(second);
			await storeEvents(first, second);
		});
		await sync.synchroniser.run({ full: true });
		expect((await rowOf(first))?.name).toMatch(/Newer$/);
		expect(await rowOf(second)).toBe(undefined);
	});

	test('during a full run that then fails are recorded with what they have deleted', async () => {
		const [first = 0] = sync.ids();
		let pages = 0;
		sync.standIn.onRequest(async ({ method }) => {
			if (method !== 'crm.item.list') return;
			if (++pages === 2) {
				sync.standIn.remove(first);
				await storeEvents(first);
			}
			if (pages === 3) sync.standIn.faults.next(error('INVALID_CREDENTIALS'), { method });
		});
		await expect(sync.synchroniser.run({ full: true })).rejects.toMatchObject({ code: 'INVALID_CREDENTIALS' });
		expect(await rowOf(first)).toBe(undefined);
		const [run] = await database.sql`select outcome, deleted::int from crm_sync_runs order by id desc limit 1`;
		expect(run).toEqual({ outcome: 'INVALID_CREDENTIALS', deleted: 1 });
	});

	test('of a contact that may not be read are deleted, and the contact stays', async () => {
		const [first = 0] = sync.ids();
		sync.standIn.hide(({ id }) => id === first);
		await storeEvents(first);
		await sync.synchroniser.events();
		expect(await mirroredIds()).toContain(first);
		expect(await waiting()).toEqual([]);
	});

	test.each<[string, Fault]>([
		['INTERNAL_SERVER_ERROR', error('INTERNAL_SERVER_ERROR')],
		['a code that nobody knows', error('SOMETHING_NEW')],
		['an item without an ID', { kind: 'with-fields', values: { id: undefined } }],
		['a category that is no number', { kind: 'with-fields', values: { categoryId: 'general' } }],
	])(
		'whose look-up fails with %s delay no other event and no run, and delete nothing until it succeeds',
		async (_, fault) => {
			const [first = 0, second = 0] = sync.ids();
			failFor(first, fault);
			// A found contact may be unread as well as a missing one.
			if (fault.kind === 'error') sync.standIn.remove(first);
			sync.standIn.update(second, { lastName: 'Read' });
			await storeEvents(first, second);
			expect(await sync.synchroniser.events()).toMatchObject({ changed: 1, deleted: 0 });
			expect(await mirroredIds()).toContain(first);
			expect(await waiting()).toEqual([{ id: first }]);
			expect((await sync.state()).blocked_by).toBe(null);
			expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental' });

			sync.standIn.faults.clear();
			if (sync.standIn.contacts.has(first)) sync.standIn.remove(first);
			sync.clock.advance(hour);
			expect(await sync.synchroniser.events()).toMatchObject({ deleted: 1 });
			expect(await mirroredIds()).not.toContain(first);
			expect(await waiting()).toEqual([]);
		},
	);

	test('are deletions where the CRM writes NOT_FOUND in lower case', async () => {
		const [first = 0] = sync.ids();
		failFor(first, error('not_found'));
		await storeEvents(first);
		expect(await sync.synchroniser.events()).toMatchObject({ deleted: 1 });
		expect(await waiting()).toEqual([]);
	});

	test('are tried again after increasing delays, then left to the next full run', async () => {
		const [first = 0] = sync.ids();
		failFor(first, error('SOMETHING_NEW'));
		await storeEvents(first);
		let attempts = 0;
		for (let round = 0; round < 400 && (await waiting()).length > 0; round++) {
			sync.standIn.requests.length = 0;
			await sync.synchroniser.events();
			attempts += sync.standIn.requests.filter(({ method }) => method === 'batch').length;
			sync.clock.advance(60_000);
		}
		expect(attempts).toBe(5);
		expect(sync.unread).toEqual(['events']);
		expect(sync.log.join('')).toContain(`"bitrix_id":${first},"code":"SOMETHING_NEW"`);
	});

	test.each(['insufficient_scope', 'PAYMENT_REQUIRED'])(
		'are kept when the CRM refuses one of them with a code that concerns all of it and stops the run: %s',
		async (code) => {
			const [first = 0, second = 0] = sync.ids();
			failFor(second, error(code));
			sync.standIn.update(first, { lastName: 'Read' });
			await storeEvents(first, second);
			await expect(sync.synchroniser.events()).rejects.toMatchObject({ code });
			expect((await sync.state()).blocked_by).toBe(code);
			// The other contact of the same request is not requested again.
			expect((await rowOf(first))?.name).toMatch(/Read$/);
			expect(await waiting()).toEqual([{ id: second }]);
		},
	);
});
