import { database, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { beforeEach, describe, expect } from 'vitest';
import { storeEvent } from '../mirror/inbox.sql.js';
import { requestRun, takeRequest } from '../mirror/requests.sql.js';
import { readUnreadablePhones } from '../mirror/unreadable-phones.sql.js';
import {
	atLastPage,
	error,
	interrupt,
	makeContact,
	makeContacts,
	mirroredIds,
	readMirror,
	reasonField,
	rowOf,
	type SyncHarness,
	startSync,
	troubleField,
} from '../testing/harness.js';

let sync: SyncHarness;
const hour = 3_600_000;
const paused = error('OPERATION_TIME_LIMIT', 429);

beforeEach(async () => {
	sync = await startSync({ contacts: makeContacts(120) });
});

const databaseTime = async () =>
	(await database.sql<[{ at: number }]>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as at`)[0].at;

/** After which contacts pages were requested. */
const requestedPages = () =>
	sync.standIn.requests.flatMap(({ params }) => (params as { filter?: { '>id'?: number } }).filter?.['>id'] ?? []);

test('a second full run writes nothing, and every contact keeps its ID', async () => {
	const rows = async () => [
		...(await database.sql`select id, bitrix_id, updated_at, xmin::text from company_contacts order by id`),
	];
	await sync.synchroniser.run();
	const before = await rows();
	const nothing = { kind: 'full', created: 0, changed: 0, deleted: 0 };
	expect(await sync.synchroniser.run({ full: true })).toMatchObject(nothing);
	expect(await rows()).toEqual(before);
});

test('a transaction that reads the staging table, as a dump does, does not block a run', async () => {
	await sync.synchroniser.run();
	const reader = postgres(database.url, { max: 1 });
	await reader`begin isolation level repeatable read read only`;
	await reader`select count(*) from crm_sync_staging`;
	try {
		sync.standIn.remove(sync.ids()[0] ?? 0);
		await sync.session.run((sql) => sql`set lock_timeout = '1s'`);
		expect(await sync.synchroniser.run({ full: true })).toMatchObject({ deleted: 1 });
	} finally {
		await reader.end({ timeout: 0 });
	}
});

test.each([
	['that was deleted', undefined, `no_field_${troubleField}`],
	['of a type that can’t be mirrored', 'file', `type_file_of_${troubleField}`],
])('a custom field %s stops the run by its name, before anything is overwritten', async (_, type, code) => {
	await sync.synchroniser.run();
	const before = await readMirror();
	await sync.restart();
	sync.standIn.fields.splice(0, 1, ...(type === undefined ? [] : [{ name: troubleField, type }]));
	sync.standIn.requests.length = 0;
	await expect(sync.synchroniser.run({ full: true })).rejects.toMatchObject({ code, kind: 'stop' });
	expect(sync.standIn.requests.map(({ method }) => method)).toEqual(['crm.item.fields']);
	expect(await readMirror()).toEqual(before);
	expect((await sync.state()).blocked_by).toBe(code);
});

test('a list whose options the CRM does not return stops the run before their IDs are taken for text', async () => {
	const items = [{ id: 79, value: 'Price' }];
	sync.standIn.fields.splice(1, 1, { name: reasonField, type: 'enumeration', items });
	for (const id of sync.ids()) sync.standIn.update(id, { uf: { [reasonField]: 79 } });
	await sync.synchroniser.run();
	const before = await readMirror();
	expect(before[0]?.perplexity_reason).toBe('Price');
	sync.standIn.fields.splice(1, 1, { name: reasonField, type: 'enumeration' });
	await expect(sync.synchroniser.run({ full: true })).rejects.toMatchObject({ code: 'no_options' });
	expect(await readMirror()).toEqual(before);
});

describe('an interrupted run', () => {
	beforeEach(() => interrupt(sync));

	test('has changed nothing, and continues after the last saved page, once even with a rate-limit pause in its middle', async () => {
		const { full_cursor: cursor } = await sync.state();
		expect(await mirroredIds()).toEqual([]);
		await sync.restart();
		sync.standIn.requests.length = 0;
		sync.standIn.faults.next(paused, atLastPage);
		await sync.synchroniser.run();
		expect(Math.min(...requestedPages())).toBe(cursor);
		expect(await mirroredIds()).toEqual(sync.ids());
	});

	test('is read again from the first contact by a requested full run', async () => {
		const [first = 0] = sync.ids();
		sync.standIn.update(first, { lastName: 'Changed since' }, { touch: false });
		sync.standIn.requests.length = 0;
		sync.standIn.faults.next(paused, atLastPage);
		await sync.synchroniser.run({ full: true });
		expect(requestedPages().filter((after) => after === 0)).toHaveLength(1);
		expect((await rowOf(first))?.name).toMatch(/Changed since$/);
	});

	test('is continued by a requested run, which then reads what has changed since it began', async () => {
		const [first = 0] = sync.ids();
		sync.clock.advance(hour);
		sync.standIn.update(first, { lastName: 'Changed since' });
		await sync.restart();
		sync.standIn.requests.length = 0;
		await sync.session.run((sql) => requestRun(sql, 'incremental'));
		const { requestedAt = '' } = (await sync.session.run(takeRequest)) ?? {};
		expect(await sync.synchroniser.run({ requestedAt })).toMatchObject({ kind: 'full', created: 120, changed: 1 });
		expect(requestedPages()[0]).toBeGreaterThan(0);
		expect((await rowOf(first))?.name).toMatch(/Changed since$/);
	});
});

test('a full run is due after a day with an interval of five minutes, and finds changed links then', async () => {
	const [first = 0] = sync.ids();
	sync.clock.advance(hour);
	await sync.synchroniser.run();
	sync.standIn.update(first, { companyIds: [4711] }, { touch: false });
	// The run began an hour later than the database's clock says.
	sync.clock.advance(22 * hour);
	expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental' });
	sync.clock.advance(2 * hour);
	expect(await sync.synchroniser.run()).toMatchObject({ kind: 'full', changed: 1 });
	expect((await rowOf(first))?.company_ids).toBe('4711');
});

describe.each(['returns a contact incompletely', 'counts contacts that it does not list'])('a CRM %s', (what) => {
	test('has its full run repeated hourly; changes arrive meanwhile, and the mirror does not count as equal to the CRM', async () => {
		const [first = 0, second = 0] = sync.ids();
		sync.clock.advance(hour);
		await sync.synchroniser.run();
		const { last_success_at: equalAt } = await sync.state();
		sync.clock.advance(24 * hour);
		sync.standIn.update(
			second,
			{ raw: what.startsWith('returns') ? { assignedById: undefined } : {} },
			{ touch: false },
		);
		if (what.startsWith('counts')) for (let n = 1; n <= 5; n++) sync.standIn.add({ ...makeContact(n), categoryId: 7 });
		const undo = sync.standIn.onRequest(({ params }) => {
			if (what.startsWith('counts') && params.start === 0) delete params.filter?.['@categoryId'];
		});
		for (let attempt = 1; attempt <= 2; attempt++) {
			await expect(sync.synchroniser.run()).rejects.toMatchObject({ name: 'IncompleteRunError' });
			sync.standIn.update(first, { lastName: `Changed ${attempt}` });
			expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental' });
			expect((await rowOf(first))?.name).toMatch(new RegExp(`Changed ${attempt}$`));
			expect(await sync.state()).toMatchObject({ last_success_at: equalAt });
			sync.clock.advance(hour);
		}
		undo();
		sync.standIn.update(second, { raw: {} }, { touch: false });
		expect(await sync.synchroniser.run()).toMatchObject({ kind: 'full' });
		expect((await sync.state()).last_success_at).toBeGreaterThan(Number(equalAt));
	});
});

describe('an event that the full inbox drops in the middle of a full run', () => {
	let changed: number;

	beforeEach(async () => {
		[changed = 0] = sync.ids();
		await sync.synchroniser.run();
		// None of them is due.
		await database.sql`
			insert into crm_event_inbox (bitrix_id, retry_at)
			select 1000000 + n, 'infinity' from generate_series(1, 100000) n`;
		// The run has read this contact before.
		const undo = sync.standIn.onRequest(async ({ params }) => {
			if (!Number(params.filter?.['>id'])) return;
			undo();
			sync.standIn.update(changed, { companyIds: [4711] }, { touch: false });
			expect(await storeEvent(database.sql, changed)).toEqual([{ stored: false }]);
		});
	});

	test.each(['makes another full run due', 'makes an interrupted run start at the first contact'])(
		'%s',
		async (title) => {
			if (title.includes('interrupted')) await interrupt(sync, { full: true });
			else await sync.synchroniser.run({ full: true });
			expect((await rowOf(changed))?.company_ids).not.toBe('4711');
			await sync.restart();
			expect(await sync.synchroniser.run()).toMatchObject({ kind: 'full', changed: 1 });
			expect((await rowOf(changed))?.company_ids).toBe('4711');
			expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental' });
		},
	);
});

describe('the mirror counts as equal to the CRM as of the beginning', () => {
	test('of a full run, also when it was interrupted', async () => {
		const before = await databaseTime();
		await interrupt(sync);
		const changedAt = await databaseTime();
		await sync.restart();
		expect(await sync.synchroniser.run()).toMatchObject({ kind: 'full' });
		const { last_success_at: successAt } = await sync.state();
		expect(successAt).toBeLessThanOrEqual(changedAt);
		expect(successAt).toBeGreaterThanOrEqual(before);
	});

	test('of an incremental run', async () => {
		await sync.synchroniser.run();
		for (const id of sync.ids()) sync.standIn.update(id, { lastName: 'New' });
		const before = await databaseTime();
		let changedAt = Number.POSITIVE_INFINITY;
		sync.standIn.onRequest(async ({ params }) => {
			if (!Number(params.filter?.['>id']) || changedAt < Number.POSITIVE_INFINITY) return;
			changedAt = await databaseTime();
			// A run that begins later is not the one that counts.
			await database.sql`insert into crm_sync_runs (kind) values ('events')`;
		});
		expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental', changed: 120 });
		const { last_success_at: successAt } = await sync.state();
		expect(successAt).toBeLessThanOrEqual(changedAt);
		expect(successAt).toBeGreaterThanOrEqual(before);
	});
});

test('a run keeps the newest ten thousand runs of 30 days, and tombstones of 62 days', async () => {
	await database.sql`
		insert into crm_sync_runs (kind, begun_at, ended_at, outcome)
		select 'events', now() - interval '31 days', now(), 'done' from generate_series(1, 50)`;
	await database.sql`insert into company_contacts (bitrix_id) values (900), (901)`;
	await database.sql`delete from company_contacts`;
	await database.sql`update company_contacts_changes set deleted_at = now() - interval '63 days' where bitrix_id = 900`;
	await database.sql`
		insert into crm_sync_runs (kind, ended_at, outcome) select 'incremental', now(), 'done' from generate_series(1, 10500) n`;
	await sync.synchroniser.run();
	const kept = await database.sql`select kind, count(*)::int from crm_sync_runs group by kind order by kind`;
	expect([...kept]).toEqual([
		{ kind: 'full', count: 1 },
		{ kind: 'incremental', count: 9999 },
	]);
	const left = database.sql`select bitrix_id::int as id from company_contacts_changes where bitrix_id in (900, 901)`;
	expect([...(await left)]).toEqual([{ id: 901 }]);
});

test('a run that a stop interrupts is not a failed one', async () => {
	const stop = new AbortController();
	await sync.restart({ signal: stop.signal });
	sync.standIn.onRequest(() => stop.abort());
	await expect(sync.synchroniser.run()).rejects.toMatchObject({ name: 'AbortError' });
	expect([...(await database.sql`select outcome from crm_sync_runs`)]).toEqual([{ outcome: 'interrupted' }]);
});

test('the run of a synchroniser that crashed is closed', async () => {
	await database.sql`insert into crm_sync_runs (kind) values ('full')`;
	await sync.restart();
	expect([...(await database.sql`select outcome from crm_sync_runs`)]).toEqual([{ outcome: 'interrupted' }]);
});

test('a contact that changes between the list and its item is mirrored as it is now', async () => {
	const [id = 0] = sync.ids();
	const undo = sync.standIn.onRequest(({ method }) => {
		if (method !== 'batch') return;
		undo();
		sync.clock.advance(1000);
		sync.standIn.update(id, { ...makeContact(7), companyIds: [9001, 9002] });
	});
	await sync.synchroniser.run();
	expect((await rowOf(id))?.company_ids).toBe('9001,9002');
	// The list still counts as complete, so the other pages were not looked up.
	expect(sync.standIn.requests.filter(({ method }) => method === 'batch')).toHaveLength(1);
});

test('contacts whose phone can’t be read are stored until somebody corrects them, and a run counts the phones that it changes', async () => {
	const phones = (value: string) => ({ phones: [{ id: 1, valueType: 'WORK', value }] });
	const [first = 0, second = 0, third = 0] = sync.ids();
	sync.standIn.update(first, phones('+7 812 345-67-89 (12) (34)'));
	sync.standIn.update(second, phones('call the office'));
	sync.standIn.update(third, phones('+79001234567'));
	await sync.synchroniser.run({ full: true });
	expect(await readUnreadablePhones(database.sql)).toEqual({ count: 2, contacts: [first, second] });

	sync.standIn.update(first, phones('+7 812 345-67-89'));
	sync.standIn.remove(second);
	sync.standIn.update(third, phones('+79007654321'));
	await sync.synchroniser.run();
	expect(await readUnreadablePhones(database.sql)).toEqual({ count: 1, contacts: [second] });
	sync.standIn.contacts.get(first)?.phones?.splice(0);
	Object.assign(sync.standIn.contacts.get(third) ?? {}, phones('+79001234567'));
	expect(await sync.synchroniser.run({ full: true })).toMatchObject({ phones: { changed: 1, removed: 1 } });
	expect(await readUnreadablePhones(database.sql)).toEqual({ count: 0, contacts: [] });
});
