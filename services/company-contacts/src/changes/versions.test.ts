import { database, test } from '@contacts/testing/test.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import postgres from 'postgres';
import { describe, expect, onTestFinished } from 'vitest';

test.beforeEach(async () => {
	await database.sql`delete from company_contacts`;
	await database.sql`delete from company_contacts_changes`;
	await database.sql`insert into company_contacts (bitrix_id, name) values (1, 'one'), (2, 'two'), (3, 'three')`;
});

interface Version {
	epoch: string;
	version: number;
	pruned: number;
}

async function readVersion(): Promise<Version> {
	const [row] = await database.sql<[Version]>`
		select epoch, version::float8 as version, pruned_version::float8 as pruned from company_contacts_version`;
	return row;
}

/** What has changed after a version: the IDs of the CRM in order, with a minus for deleted contacts. */
async function changedAfter(version: number): Promise<string[]> {
	const rows = await database.sql<{ bitrix_id: string }[]>`
		select coalesce(-c.bitrix_id, k.bitrix_id)::text as bitrix_id
		from company_contacts_changes c left join company_contacts k using (id)
		where c.version > ${version} order by c.version, c.id`;
	return rows.map((row) => row.bitrix_id);
}

/** A separate connection, as somebody with a shell has it. */
function openSession() {
	const sql = postgres(database.url, { max: 1, fetch_types: false, onnotice: () => undefined });
	onTestFinished(() => sql.end({ timeout: 5 }));
	return (statement: string) => sql.unsafe(statement).simple().execute();
}

const lockWaiters = async () => {
	const rows = await database.sql`
		select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
	return rows.length;
};

test('a change of any field of the list counts as a change', async () => {
	const fields = {
		bitrix_id: '9',
		phone: "'+12025550100'",
		company_ids: "'{7}'",
		name: "'x'",
		assigned_by_id: '5',
		trouble_contact: 'true',
		perplexity_reason: "'y'",
	};
	for (const [field, value] of Object.entries(fields)) {
		const before = await readVersion();
		const update = `update company_contacts set ${field} = ${value} where id = (select max(id) from company_contacts)`;
		await database.sql.unsafe(update);
		expect(await readVersion(), field).toEqual({ ...before, version: before.version + 1 });
		await database.sql.unsafe(update);
		expect((await readVersion()).version, field).toBe(before.version + 1);
	}
});

test.each([
	'update company_contacts set name = name',
	'delete from company_contacts where false',
	'insert into company_contacts (bitrix_id) values (2) on conflict do nothing',
])('a statement without changes uses no version: %s', async (statement) => {
	const before = await readVersion();
	await database.sql.unsafe(statement);
	expect(await readVersion()).toEqual(before);
});

describe('versions become visible in order', () => {
	test('a writer waits for the commit of the one before it', async () => {
		const [first, second] = [openSession(), openSession()];
		const before = await readVersion();
		await first('begin');
		await first("update company_contacts set name = 'first' where bitrix_id = 1");
		const waiting = second("update company_contacts set name = 'second' where bitrix_id = 2");
		await waitUntil(async () => (await lockWaiters()) === 1, { timeoutMs: 10_000 });
		expect(await readVersion()).toEqual(before);
		await first('commit');
		await waiting;
		expect(await changedAfter(before.version)).toEqual(['1', '2']);
		expect((await readVersion()).version).toBe(before.version + 2);
	});

	test('a truncation waits for the commit of a new epoch', async () => {
		const [first, second] = [openSession(), openSession()];
		const { version } = await readVersion();
		await first('begin');
		await first('select begin_company_contacts_epoch()');
		const waiting = second('truncate company_contacts');
		await waitUntil(async () => (await lockWaiters()) === 1, { timeoutMs: 10_000 });
		await first('commit');
		await waiting;
		expect((await readVersion()).version).toBe(version + 2);
	});

	test('two writers of the same contacts in opposite order don’t deadlock', async () => {
		const [first, second] = [openSession(), openSession()];
		await first('begin');
		await second('begin');
		await first("update company_contacts set name = 'first' where bitrix_id = 1");
		const waiting = second("update company_contacts set name = 'second' where bitrix_id = 2");
		await waitUntil(async () => (await lockWaiters()) === 1, { timeoutMs: 10_000 });
		await first("update company_contacts set name = 'first' where bitrix_id = 2");
		await first('commit');
		await waiting;
		await second("update company_contacts set name = 'second' where bitrix_id = 1");
		await second('commit');
		const rows = await database.sql`select name from company_contacts where bitrix_id < 3`;
		expect(rows.map(({ name }) => name)).toEqual(['second', 'second']);
	});
});

test('a statement is planned for the number of contacts that it changes', async () => {
	const session = openSession();
	await session("update company_contacts set name = 'x' where bitrix_id = 1");
	await session('insert into company_contacts (bitrix_id) select n from generate_series(4, 20000) n');
	// With nested loops it would take minutes.
	await session("set statement_timeout = '20s'; update company_contacts set name = 'y'");
	expect((await changedAfter((await readVersion()).version - 1)).length).toBe(20_000);
});

describe('an epoch', () => {
	test('begins when the database runs on another server', async () => {
		await database.sql`update company_contacts_version set history = 'another server'`;
		const before = await readVersion();
		await database.sql`delete from company_contacts where bitrix_id = 1`;
		const after = await readVersion();
		expect(after.epoch).not.toBe(before.epoch);
		await database.sql`delete from company_contacts where bitrix_id = 2`;
		expect(await readVersion()).toEqual({ ...after, version: after.version + 1 });
	});

	test.each([
		[{ portal: 'one', webhook_user: 1 }, { portal: 'two', webhook_user: 1 }, true],
		[{ portal: 'one', webhook_user: 1 }, { portal: 'one', webhook_user: 2, mapping_version: 2 }, false],
		[null, { portal: 'one' }, false],
	])('a mirror of %j that becomes one of %j: %s', async (from, to, begins) => {
		const configure = (configuration: object | null) => database.sql`
			update crm_sync_state set configuration = ${configuration && JSON.stringify(configuration)}::text::jsonb`;
		await configure(null);
		await configure(from);
		const before = await readVersion();
		await configure(to);
		expect((await readVersion()).epoch !== before.epoch).toBe(begins);
	});
});

describe('tombstones', () => {
	const age = (bitrixId: number, days: number) => database.sql`
		update company_contacts_changes set deleted_at = now() - make_interval(days => ${days}) where bitrix_id = ${bitrixId}`;
	const prune = () => database.sql`select prune_company_contacts_tombstones()`;

	const fields = 'id, bitrix_id, name';
	const insert = `insert into company_contacts (${fields}) overriding system value`;
	test.each<[string, string, string[]]>([
		[
			'deletes a record and inserts it again',
			`with gone as (delete from company_contacts where bitrix_id < 3 returning *) ${insert} select ${fields} from gone`,
			['1', '2'],
		],
		[
			'deletes two records and inserts the first one again',
			`with gone as (delete from company_contacts where bitrix_id < 3 returning *) ${insert} select ${fields} from gone limit 1`,
			['1', '-2'],
		],
		[
			'deletes a record and inserts it with another ID of the CRM',
			`with gone as (delete from company_contacts where bitrix_id = 2 returning *) ${insert} select id, 9, name from gone`,
			['9'],
		],
		[
			'deletes a record and inserts it with another ID',
			`with gone as (delete from company_contacts where bitrix_id = 2 returning *)
			insert into company_contacts (bitrix_id, name) select bitrix_id, name from gone`,
			['-2', '2'],
		],
		[
			'inserts a record that a function deletes again',
			'insert into company_contacts (bitrix_id) values (4) returning test.delete_contact(id)',
			['-4'],
		],
		[
			'updates a record that a function deletes',
			"update company_contacts set name = 'x' where bitrix_id = 3 returning test.delete_contact(id)",
			['-3'],
		],
	])('are written only of records that no longer exist, by a statement that %s', async (_, statement, changed) => {
		await database.sql.unsafe(`
			create schema test;
			create function test.delete_contact(contact bigint) returns void language sql as
				'delete from company_contacts where id = contact'`);
		onTestFinished(async () => void (await database.sql`drop schema test cascade`));
		const before = await readVersion();
		await database.sql.unsafe(statement);
		expect((await changedAfter(before.version)).toSorted()).toEqual(changed.toSorted());
		const wrong = await database.sql`
			select from company_contacts_changes c full join company_contacts k using (id)
			where (c.deleted_at is null) <> (k.bitrix_id is not null)`;
		expect(wrong).toHaveLength(0);
	});

	test('are kept for 62 days; the pruned version then says up to where they may be missing', async () => {
		const before = await readVersion();
		for (const bitrixId of [1, 2, 3]) await database.sql`delete from company_contacts where bitrix_id = ${bitrixId}`;
		await age(1, 63);
		await age(2, 63);
		await age(3, 61);
		await prune();
		expect(await changedAfter(before.version)).toEqual(['-3']);
		expect((await readVersion()).pruned).toBe(before.version + 2);
		await prune();
		expect((await readVersion()).pruned).toBe(before.version + 2);
	});
});
