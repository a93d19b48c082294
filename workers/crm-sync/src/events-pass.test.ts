import type { Fault } from '@contacts/testing/bitrix24/stand-in.js';
import { database, test } from '@contacts/testing/test.js';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import { readState } from './sync.sql.js';
import { emptyMirror, makeContact, readMirror, type SyncHarness, startSync } from './testing/portal.js';

let sync: SyncHarness;
const hour = 3_600_000;

beforeEach(async () => {
	sync = await startSync();
	for (let n = 1; n <= 60; n++) sync.standIn.add(makeContact(n));
	await sync.synchroniser.pass();
});
afterEach(async () => {
	await sync.close();
	await emptyMirror();
});

const error = (code: string): Fault => ({ kind: 'error', code });
const ids = () => [...sync.standIn.contacts.keys()];
const mirrored = async () => (await readMirror()).map((row) => row.bitrix_id);
const nameOf = async (id: number) => (await readMirror()).find((row) => row.bitrix_id === id)?.name;
const state = () => sync.session.run(readState);
const waiting = async () => [...(await database.sql`select bitrix_id::float8 as id from crm_event_inbox order by 1`)];
const note = (id: number, event = 'ONCRMCONTACTUPDATE') =>
	database.sql`insert into crm_event_inbox (bitrix_id, event) values (${id}, ${event})`;
/** The portal's response to a request for one contact by its ID. */
const failFor = (id: number, fault: Fault) =>
	sync.standIn.faults.always(fault, { method: 'crm.item.get', when: ({ params }) => Number(params.id) === id });

describe.each(['SOMETHING_NEW', '', '100', 'INVALID_ARG_VALUE'])('a record whose look-up fails with "%s"', (code) => {
	test('stops neither the other events nor the passes', async () => {
		const [first = 0, second = 0] = ids();
		failFor(first, error(code));
		sync.standIn.update(first, { lastName: 'Unread' });
		sync.standIn.update(second, { lastName: 'Read' });
		await note(first);
		await note(second);
		expect(await sync.synchroniser.events()).toMatchObject({ changed: 1 });
		expect(await nameOf(second)).toMatch(/Read$/);
		expect(await waiting()).toEqual([{ id: first }]);
		expect((await state()).blocked_by).toBe(null);
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'incremental', changed: 1 });
	});

	test('is kept by a full pass, with an alarm, and the others are deleted', async () => {
		const [first = 0, second = 0] = ids();
		failFor(first, error(code));
		sync.standIn.remove(first);
		sync.standIn.remove(second);
		expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ deleted: 1 });
		expect(await mirrored()).toEqual([first, ...ids()]);
		expect((await state()).unread_contacts).toBe(1);
		expect(sync.unread).toEqual(['full']);
	});
});

test('an event whose record can’t be read is tried again after increasing delays, then left to the next full pass', async () => {
	const [first = 0] = ids();
	failFor(first, error('SOMETHING_NEW'));
	await note(first);
	let asked = 0;
	for (let round = 0; round < 400 && (await waiting()).length > 0; round++) {
		sync.standIn.requests.length = 0;
		await sync.synchroniser.events();
		asked += sync.standIn.requests.filter(({ method }) => method === 'batch').length;
		sync.clock.advance(60_000);
	}
	expect(await waiting()).toEqual([]);
	expect(asked).toBe(5);
	expect(sync.unread).toEqual(['events']);
	expect(sync.log.join('')).toContain(`"bitrix_id":${first},"code":"SOMETHING_NEW"`);
	expect(sync.log.join('')).toContain('left to the next full pass');
});

test('a new event of a record that could not be read is tried at once', async () => {
	const [first = 0] = ids();
	failFor(first, error('SOMETHING_NEW'));
	await note(first);
	await sync.synchroniser.events();
	sync.standIn.faults.clear();
	sync.standIn.update(first, { lastName: 'Again' });
	await database.sql`
		insert into crm_event_inbox (bitrix_id, event) values (${first}, 'ONCRMCONTACTUPDATE')
		on conflict (bitrix_id) do update set attempts = 0, retry_at = null, received_at = clock_timestamp()`;
	await sync.synchroniser.events();
	expect(await nameOf(first)).toMatch(/Again$/);
	expect(await waiting()).toEqual([]);
});

describe('an event', () => {
	test.each([
		['INTERNAL_SERVER_ERROR', error('INTERNAL_SERVER_ERROR')],
		['ERROR_UNEXPECTED_ANSWER', error('ERROR_UNEXPECTED_ANSWER')],
		['SOMETHING_NEW', error('SOMETHING_NEW')],
		['an item without an ID', { kind: 'with-fields', values: { id: undefined } }],
		['a category that is no number', { kind: 'with-fields', values: { categoryId: 'general' } }],
	] as [string, Fault][])('of a deletion is kept until the look-up succeeds: %s', async (_, fault) => {
		const [first = 0] = ids();
		failFor(first, fault);
		// A found contact may be as unclear as a missing one.
		if (fault.kind === 'error') sync.standIn.remove(first);
		await note(first, 'ONCRMCONTACTDELETE');
		await sync.synchroniser.events();
		expect(await mirrored()).toContain(first);
		expect(await waiting()).toEqual([{ id: first }]);

		sync.standIn.faults.clear();
		if (sync.standIn.contacts.has(first)) sync.standIn.remove(first);
		sync.clock.advance(hour);
		expect(await sync.synchroniser.events()).toMatchObject({ deleted: 1 });
		expect(await mirrored()).not.toContain(first);
		expect(await waiting()).toEqual([]);
	});

	test('of a record that may not be read is deleted from the inbox', async () => {
		const [first = 0] = ids();
		sync.standIn.hide(({ id }) => id === first);
		await note(first, 'ONCRMCONTACTDELETE');
		await sync.synchroniser.events();
		expect(await mirrored()).toContain(first);
		expect(await waiting()).toEqual([]);
	});

	test('is handled in the same pass despite a temporary error of the portal', async () => {
		const [first = 0] = ids();
		sync.standIn.remove(first);
		sync.standIn.faults.next(error('INTERNAL_SERVER_ERROR'), { method: 'crm.item.get', inBatch: true, times: 2 });
		await note(first, 'ONCRMCONTACTDELETE');
		expect(await sync.synchroniser.events()).toMatchObject({ deleted: 1 });
	});
});

test.each([
	'OVERLOAD_LIMIT',
	'INVALID_CREDENTIALS',
	'NO_AUTH_FOUND',
	'insufficient_scope',
	'INVALID_REQUEST',
	'expired_token',
	'user_access_error',
	'ERROR_METHOD_NOT_FOUND',
	'PORTAL_DELETED',
])('%s is an error of the portal, for one record too: it stops the pass, and no event is lost', async (code) => {
	const [first = 0, second = 0] = ids();
	failFor(second, error(code));
	sync.standIn.update(first, { lastName: 'Read' });
	await note(first);
	await note(second);
	await expect(sync.synchroniser.events()).rejects.toMatchObject({ code });
	expect((await state()).blocked_by).toBe(code);
	// The other contact of the same request is not requested again.
	expect(await nameOf(first)).toMatch(/Read$/);
	expect(await waiting()).toEqual([{ id: second }]);
});

test('a rate-limit pause of the events blocks nothing else, and they are handled after it', async () => {
	const [first = 0] = ids();
	await note(first);
	sync.standIn.faults.next(error('OPERATION_TIME_LIMIT'), { method: 'crm.item.get', inBatch: true });
	await expect(sync.synchroniser.events()).rejects.toMatchObject({ kind: 'pause' });
	expect(await state()).toMatchObject({ blocked_by: null, blocked_until: null });
	sync.clock.advance(660_000);
	await sync.synchroniser.events();
	expect(await waiting()).toEqual([]);
});

describe('codes', () => {
	const text = `\u001b[31m${'x'.repeat(1_000_000)}`;

	test('a code with a long text is neither stored nor logged', async () => {
		sync.standIn.faults.always({ kind: 'error', code: text, status: 400 });
		await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ code: 'unknown_code' });
		expect((await state()).blocked_by).toBe('unknown_code');
		const [run] = await database.sql`select outcome from crm_sync_runs order by id desc limit 1`;
		expect(run).toEqual({ outcome: 'unknown_code' });
		expect(Math.max(...sync.log.map((line) => line.length))).toBeLessThan(10_000);
	});

	test.each([
		['crm_sync_runs', 'outcome'],
		['crm_sync_state', 'blocked_by'],
	])('the table %s rejects free text as a code', async (table, column) => {
		for (const code of [text, '', 'two words', 'x'.repeat(65), 'line\n']) {
			const statement = database.sql`update ${database.sql(table)} set ${database.sql({ [column]: code }, column)}`;
			await expect(statement).rejects.toMatchObject({ code: '23514' });
		}
	});
});
