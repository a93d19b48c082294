import { database, test } from '@contacts/testing/test.js';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import { requestContact, storeEvent, takeContactOutcome } from './inbox.sql.js';
import { openSession } from './session.js';
import { readState } from './sync.sql.js';
import {
	confirmHeldDeletions,
	emptyMirror,
	expectedRow,
	makeContact,
	readMirror,
	type SyncHarness,
	startSync,
} from './testing/portal.js';

let sync: SyncHarness;
const hour = 3_600_000;

beforeEach(async () => {
	sync = await startSync();
	for (let n = 1; n <= 120; n++) sync.standIn.add(makeContact(n));
	sync.clock.advance(hour);
	await sync.synchroniser.pass();
	sync.clock.advance(hour);
	sync.standIn.requests.length = 0;
});
afterEach(async () => {
	await sync.close();
	await emptyMirror();
});

const ids = () => [...sync.standIn.contacts.keys()];
const rowOf = async (id: number) => (await readMirror()).find((row) => row.bitrix_id === id);

describe('an incremental pass', () => {
	test('makes at most three requests and writes no contact if nothing changed', async () => {
		const before = [...(await database.sql`select bitrix_id, xmin::text from company_contacts order by id`)];
		const outcome = await sync.synchroniser.pass();
		expect(outcome).toMatchObject({ kind: 'incremental', created: 0, changed: 0, deleted: 0 });
		expect(outcome.requests).toBeLessThanOrEqual(3);
		expect([...(await database.sql`select bitrix_id, xmin::text from company_contacts order by id`)]).toEqual(before);
	});

	test('reads only new and changed contacts', async () => {
		const [first = 0] = ids();
		sync.standIn.update(first, { lastName: 'Changed' });
		const added = sync.standIn.add(makeContact(500));
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'incremental', seen: 2, created: 1, changed: 1 });
		expect((await rowOf(first))?.name).toMatch(/Changed$/);
		expect(await rowOf(added.id)).toEqual(expectedRow(added.id, 500));
	});

	test('uses the portal’s clock: clocks that differ by a day lose no change', async () => {
		const skewed = await startSync({ clock: () => sync.clock.now() - 86_400_000 }).catch(() => undefined);
		expect(skewed).toBe(undefined);
		await sync.session.close();
		const other = await startSync({ clock: () => sync.clock.now() - 86_400_000, utcOffset: '-09:30' });
		try {
			await confirmHeldDeletions(other);
			await other.synchroniser.pass({ full: true });
			const added = other.standIn.add(makeContact(7));
			sync.clock.advance(hour);
			expect(await other.synchroniser.pass()).toMatchObject({ kind: 'incremental', created: 1 });
			expect(await rowOf(added.id)).toEqual(expectedRow(added.id, 7));
		} finally {
			await other.close();
		}
		await sync.restart();
	});

	test('that fails does not move the watermark: the next one reads everything since', async () => {
		const { watermark } = await sync.session.run(readState);
		const [first = 0] = ids();
		sync.standIn.update(first, { lastName: 'Late' });
		sync.standIn.faults.always({ kind: 'error', code: 'OVERLOAD_LIMIT' });
		await expect(sync.synchroniser.pass()).rejects.toThrow();
		expect((await sync.session.run(readState)).watermark).toBe(watermark);
		sync.standIn.faults.clear();
		await sync.synchroniser.pass();
		expect((await rowOf(first))?.name).toMatch(/Late$/);
	});

	test('whose responses have no time leaves the watermark: the next one reads everything since', async () => {
		const { watermark, last_success_at } = await sync.session.run(readState);
		const added = sync.standIn.add(makeContact(500));
		sync.standIn.faults.always({ kind: 'without-time' }, { method: 'crm.item.list' });
		await expect(sync.synchroniser.pass()).rejects.toMatchObject({ code: 'no_portal_clock' });
		expect(await sync.session.run(readState)).toMatchObject({ watermark, last_success_at });
		sync.standIn.faults.clear();
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'incremental', seen: 1 });
		expect(await rowOf(added.id)).toEqual(expectedRow(added.id, 500));
		expect((await sync.session.run(readState)).watermark).toBeGreaterThan(watermark ?? Number.NaN);
	});

	test('is replaced by a full one when the last is a day old, which finds changed links', async () => {
		const [first = 0] = ids();
		sync.standIn.update(first, { companyIds: [4711] }, { touch: false });
		await sync.synchroniser.pass();
		expect((await rowOf(first))?.company_ids).not.toBe('4711');
		sync.clock.advance(24 * hour);
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'full', changed: 1 });
		expect((await rowOf(first))?.company_ids).toBe('4711');
	});
});

describe('events', () => {
	const note = (id: number, event = 'ONCRMCONTACTUPDATE') => database.sql`
		insert into crm_event_inbox (bitrix_id, event) values (${id}, ${event})
		on conflict (bitrix_id) do update set event = excluded.event, received_at = clock_timestamp()`;
	const waiting = async () => (await database.sql`select from crm_event_inbox`).length;

	test('cause their contacts to be read again, whatever they contain, fifty in a request', async () => {
		const [first = 0, second = 0, third = 0] = ids();
		sync.standIn.update(first, { lastName: 'Event' });
		sync.standIn.remove(second);
		const added = sync.standIn.add(makeContact(600));
		await note(first, 'ONCRMCONTACTDELETE');
		await note(second, 'ONCRMCONTACTADD');
		await note(third);
		await note(added.id, 'ONCRMCONTACTADD');
		expect(await sync.synchroniser.events()).toMatchObject({ seen: 4, created: 1, changed: 1, deleted: 1 });
		expect(sync.standIn.requests.map(({ method }) => method)).toEqual(['batch']);
		expect((await rowOf(first))?.name).toMatch(/Event$/);
		expect(await rowOf(second)).toBe(undefined);
		expect(await rowOf(added.id)).toEqual(expectedRow(added.id, 600));
		expect(await waiting()).toBe(0);
	});

	test('of unknown contacts, and twice the same, change nothing', async () => {
		await note(999_999);
		await note(999_999);
		expect(await sync.synchroniser.events()).toMatchObject({ seen: 1, created: 0, changed: 0, deleted: 0 });
	});

	test('that arrive while their contact is read again are not lost', async () => {
		const [first = 0] = ids();
		await note(first);
		let once = true;
		sync.standIn.onRequest(async () => {
			if (!once) return;
			once = false;
			await note(first);
		});
		await sync.synchroniser.events();
		expect(sync.standIn.requests).toHaveLength(2);
		expect(await waiting()).toBe(0);
	});

	test('are kept when the portal does not respond', async () => {
		const [first = 0] = ids();
		await note(first);
		sync.standIn.faults.always({ kind: 'error', code: 'OVERLOAD_LIMIT' });
		await expect(sync.synchroniser.events()).rejects.toThrow();
		expect(await waiting()).toBe(1);
	});

	test('during a full pass replace the staged contact', async () => {
		const [first = 0, second = 0] = ids();
		let pages = 0;
		sync.standIn.onRequest(async ({ method }) => {
			if (method !== 'crm.item.list' || ++pages !== 4) return;
			sync.standIn.update(first, { lastName: 'Newer' });
			sync.standIn.remove(second);
			await note(first);
			await note(second, 'ONCRMCONTACTDELETE');
		});
		await sync.synchroniser.pass({ full: true });
		expect((await rowOf(first))?.name).toMatch(/Newer$/);
		expect(await rowOf(second)).toBe(undefined);
	});
});

describe('a contact that a command has requested', () => {
	const outcomeOf = (id: number) => sync.session.run((sql) => takeContactOutcome(sql, id));

	test('is read again, with an outcome', async () => {
		const [first = 0, second = 0] = ids();
		sync.standIn.update(first, { companyIds: [8, 9] }, { touch: false });
		sync.standIn.remove(second);
		for (const id of [first, second, 999_999]) await sync.session.run((sql) => requestContact(sql, id));
		expect(await outcomeOf(first)).toBe(null);
		expect(await sync.synchroniser.events()).toMatchObject({ kind: 'events', changed: 1, deleted: 1 });
		expect((await rowOf(first))?.company_ids).toBe('8,9');
		expect([await outcomeOf(first), await outcomeOf(second), await outcomeOf(999_999)]).toEqual([
			'saved',
			'deleted',
			'unknown',
		]);
		expect(await database.sql`select from crm_event_inbox`).toHaveLength(0);
	});

	test('is read again when its event arrives before the command has its outcome', async () => {
		const [first = 0] = ids();
		await sync.session.run((sql) => requestContact(sql, first));
		await sync.synchroniser.events();
		sync.standIn.update(first, { companyIds: [10] }, { touch: false });
		await storeEvent(database.sql, first, 'ONCRMCONTACTUPDATE');
		expect(await outcomeOf(first)).toBe(null);
		await sync.synchroniser.events();
		expect((await rowOf(first))?.company_ids).toBe('10');
		expect(await outcomeOf(first)).toBe('saved');
	});
});

test('only one synchroniser works at a time', async () => {
	const { url } = database;
	expect(await openSession(url)).toBe(undefined);
	await sync.session.close();
	const next = await openSession(url);
	expect(next).not.toBe(undefined);
	await next?.close();
	await sync.restart();
});

test('a lost connection ends the session, because the lock is lost too', async () => {
	await database.sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'crm-sync' and datname = current_database()`;
	const look = () => sync.session.run(readState).catch((error: Error) => error.name);
	await expect.poll(look, { timeout: 30_000 }).toBe('SessionLostError');
	await sync.restart();
});
