import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { makeContact, type SyncHarness, startSync } from './testing/portal.js';

let sync: SyncHarness;

test.beforeAll(async () => {
	sync = await startSync();
	sync.standIn.add(makeContact(1));
});
afterAll(() => sync?.close());

const runs = async () => [
	...(await database.sql<{ kind: string; outcome: string | null }[]>`
		select kind, outcome from crm_sync_runs order by id`),
];

test('runs older than 30 days are deleted, and of the others the newest ten thousand are kept', async () => {
	await database.sql`
		insert into crm_sync_runs (kind, begun_at, ended_at, outcome)
		select 'events', now() - interval '31 days', now() - interval '31 days', 'done' from generate_series(1, 50)`;
	await database.sql`
		insert into crm_sync_runs (kind, ended_at, outcome) select 'incremental', now(), 'done' from generate_series(1, 20)`;
	await sync.synchroniser.pass();
	expect((await runs()).map(({ kind }) => kind)).toEqual([...Array(20).fill('incremental'), 'full']);

	await database.sql`
		insert into crm_sync_runs (kind, ended_at, outcome) select 'events', now(), 'done' from generate_series(1, 10500)`;
	await sync.synchroniser.pass();
	const kept = await runs();
	expect(kept).toHaveLength(10_000);
	expect(kept.at(-1)).toEqual({ kind: 'incremental', outcome: 'done' });
});

test('the next synchroniser closes the run of one that crashed', async () => {
	await database.sql`insert into crm_sync_runs (kind) values ('full')`;
	await sync.restart();
	expect((await runs()).at(-1)).toEqual({ kind: 'full', outcome: 'interrupted' });
});

test('outcomes that no command has read are deleted after a day', async () => {
	await database.sql`
		insert into crm_event_inbox (bitrix_id, event, requested_at, outcome)
		values (1, 'REQUESTED', now() - interval '25 hours', 'saved'), (2, 'REQUESTED', now() - interval '23 hours', 'saved')`;
	await sync.synchroniser.pass();
	expect(await database.sql`select bitrix_id::int as id from crm_event_inbox`).toEqual([{ id: 2 }]);
});

test('tombstones of contacts that were deleted more than 62 days ago are deleted', async () => {
	await database.sql`insert into company_contacts (bitrix_id) values (900), (901)`;
	await database.sql`delete from company_contacts where bitrix_id >= 900`;
	await database.sql`update company_contacts_changes set deleted_at = now() - interval '63 days' where bitrix_id = 900`;
	await sync.synchroniser.pass();
	const left = await database.sql`select bitrix_id::int as id from company_contacts_changes where bitrix_id >= 900`;
	expect([...left]).toEqual([{ id: 901 }]);
});
