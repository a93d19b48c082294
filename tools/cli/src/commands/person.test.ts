import { urlAs } from '@contacts/migrations/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';
import { contacts, expectOneLine } from '../testing/command.js';
import { lockWaiters, ownDatabase } from '../testing/own-database.js';

const url = () => urlAs(database.url, 'privacy', rolePassword);
const run = (...args: string[]) => contacts(url(), ['person', ...args], { environment: { CONTACTS_ACTOR: 'officer' } });

test.beforeAll(async () => {
	await addProject(database.sql, 'bot', 'bot-key');
});

/** Stores everything that can be stored about a chat, with personal data that must be in no audit row. */
async function addPerson(chatId: number): Promise<void> {
	await database.sql`
		insert into personal_contacts (chat_id, username, name, birth_date, project_id)
		select ${chatId}::float8::bigint, 'canary', 'Canary Name', '1990-05-17', id from projects where code = 'bot'`;
	await database.sql`
		insert into direct_subscriptions (chat_id, started_at, ended_at)
		values (${chatId}::float8::bigint, '2026-01-01', '2026-02-01')`;
}
const addContact = (bitrixId: number, phone: string) => database.sql`
	insert into company_contacts (bitrix_id, phone, company_ids, name) values (${bitrixId}, ${phone}, '{7,1}', 'Boris')`;

/** Makes the database look as if a CRM were mirrored into it, during this test. */
async function mirrorCrm(): Promise<void> {
	onTestFinished(async () => void (await database.sql`update crm_sync_state set configuration = null`));
	await database.sql`update crm_sync_state set configuration = '{"portal": "example.bitrix24.com"}'`;
}

/** The tables with data of a chat. */
const tables = ['personal_contacts', 'direct_subscriptions'];
const rowsOf = async (chatId: number) => {
	const find = (table: string) => database.sql`select from ${database.sql(table)} where chat_id = ${chatId}`;
	return (await Promise.all(tables.map(find))).map(({ length }) => length);
};
const contactsWith = async (phone: string) =>
	(await database.sql`select from company_contacts where phone = ${phone}`).length;
const auditRows = () => database.sql`select action, actor, role, details from audit_log order by id desc`;

test('every table that refers to a chat is exported and erased', async () => {
	const found = await database.sql<{ table: string }[]>`
		select table_name as table from information_schema.columns
		where table_schema = 'public' and column_name = 'chat_id' order by 1`;
	expect(found.map(({ table }) => table)).toEqual(tables.toSorted());
});

describe('person export', () => {
	test('prints every column of every row of a chat', async () => {
		await addPerson(200);
		const outcome = await run('export', '--chat', '200');
		expect(outcome).toMatchObject({ code: 0, stderr: '' });
		const person = JSON.parse(outcome.stdout) as Record<string, Record<string, unknown>[]>;
		expect(person).toMatchObject({
			personal_contacts: [
				{ chat_id: 200, username: 'canary', name: 'Canary Name', birth_date: '1990-05-17', project: 'bot' },
			],
			direct_subscriptions: [{ chat_id: 200 }],
			company_contacts: [],
		});
		for (const table of tables) {
			const columns = await database.sql<{ name: string }[]>`
				select column_name as name from information_schema.columns where table_name = ${table} and column_name <> 'project_id'`;
			const names = Object.keys(person[table]?.[0] ?? {});
			expect(names).toEqual(expect.arrayContaining(columns.map(({ name }) => name)));
		}
	});

	test('finds company contacts by phone, however it is written, and by the ID in the CRM; the audit log has no data', async () => {
		await addContact(1, '+12025550101');
		await addContact(2, '+12025550101');
		await database.sql`insert into company_contacts (bitrix_id, company_ids) values (10, '{9223372036854775807,11}')`;
		const find = async (...query: string[]) => JSON.parse((await run('export', ...query)).stdout).company_contacts;
		expect(await find('--phone', '+1 (202) 555-0101')).toMatchObject([{ bitrix_id: 1 }, { bitrix_id: 2 }]);
		expect(await find('--bitrix', '2')).toMatchObject([
			{ bitrix_id: 2, phone: '+12025550101', company_ids: '7,1', name: 'Boris' },
		]);
		// Each digit of a company ID, as in the list.
		expect(await find('--bitrix', '10')).toMatchObject([{ company_ids: '9223372036854775807,11' }]);
		const [latest] = await auditRows();
		expect(latest).toMatchObject({ action: 'person exported', details: { by: 'bitrix', company_contacts: 1 } });
		expect(JSON.stringify(latest)).not.toMatch(/2025550101|Boris/);
	});
});

describe('person erase', () => {
	test('with --yes deletes all data of the chat and none of others, and records it without the data', async () => {
		await addPerson(300);
		await addPerson(301);
		const asked = 'To delete for good: 1 personal_contacts, 1 direct_subscriptions.';
		expectOneLine(await run('erase', '--chat', '300'), 2, `${asked} There is no terminal to ask at. Say --yes`);
		expect(await rowsOf(300)).toEqual([1, 1]);
		const outcome = await run('erase', '--chat', '300', '--yes');
		expect(outcome).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Deleted for good: 1 personal/) });
		expect([await rowsOf(300), await rowsOf(301)]).toEqual([
			[0, 0],
			[1, 1],
		]);
		const rows = await auditRows();
		expect(rows[0]).toEqual({
			action: 'person erased',
			actor: 'officer',
			role: 'contacts_privacy',
			details: { by: 'chat', personal_contacts: 1, direct_subscriptions: 1 },
		});
		expect(JSON.stringify(rows)).not.toMatch(/canary|Canary|1990-05-17|\b300\b/);
	});

	test.each([
		['yes\n', 0, [0, 0]],
		['\n', 1, [1, 1]],
		['', 1, [1, 1]],
	])('on a terminal asks first: the reply %j', async (input, code, left) => {
		await database.sql`delete from personal_contacts where chat_id = 302`;
		await database.sql`delete from direct_subscriptions where chat_id = 302`;
		await addPerson(302);
		const outcome = await contacts(url(), ['person', 'erase', '--chat', '302'], { input, isTTY: true });
		expect(outcome.stderr).toContain('1 personal_contacts, 1 direct_subscriptions. Continue? [y/N] ');
		expect(outcome.stderr.includes('error: Nothing was done.\n')).toBe(code === 1);
		expect([outcome.code, await rowsOf(302)]).toEqual([code, left]);
	});

	test('of a company contact points to the CRM where one is mirrored, and deletes nothing', async () => {
		await addContact(4, '+12025550104');
		await mirrorCrm();
		for (const query of [
			['--phone', '+12025550104'],
			['--bitrix', '4', '--yes'],
		])
			expectOneLine(await run('erase', ...query), 1, /in the CRM: delete contact 4 in Bitrix24/);
		expect(await contactsWith('+12025550104')).toBe(1);
	});

	test('of a company contact deletes it for good where no CRM is mirrored, and the change feed has the deletion', async () => {
		await addContact(5, '+12025550105');
		await addContact(6, '+12025550105');
		await addContact(7, '+12025550107');
		const refused = await run('erase', '--phone', '+12025550105');
		expectOneLine(refused, 2, 'To delete for good: company contact 5, 6. There is no terminal');
		const outcome = await run('erase', '--phone', '+12025550105', '--yes');
		expect(outcome).toMatchObject({ code: 0, stdout: 'Deleted for good: company contact 5, 6.\n' });
		expect(outcome.stderr).toContain('Backups keep it');
		expect([await contactsWith('+12025550105'), await contactsWith('+12025550107')]).toEqual([0, 1]);
		const [latest] = await auditRows();
		expect(latest).toMatchObject({ action: 'person erased', details: { by: 'phone', company_contacts: 2 } });
		expect(JSON.stringify(latest)).not.toContain('2025550105');
		const tombstones = await database.sql`
			select bitrix_id::int from company_contacts_changes where deleted_at is not null order by 1`;
		expect([...tombstones]).toEqual([{ bitrix_id: 5 }, { bitrix_id: 6 }]);
	});

	test('asks at once, though a report on the chat is being written', async () => {
		await addPerson(400);
		const report = await database.sql.reserve();
		await report`begin`;
		await report`update direct_subscriptions set ended_at = now(), reported_at = now() where chat_id = 400`;
		expectOneLine(await run('erase', '--chat', '400'), 2, 'To delete for good: 1 personal_contacts, 1 direct_');
		await report`rollback`;
		report.release();
		expect(await rowsOf(400)).toEqual([1, 1]);
	});

	test('waits for a report on the chat, and deletes what the report has saved', async () => {
		await addPerson(401);
		const report = await database.sql.reserve();
		await report`begin`;
		await report`update direct_subscriptions set ended_at = now(), reported_at = now() where chat_id = 401`;
		const erased = run('erase', '--chat', '401', '--yes');
		await lockWaiters(database);
		await report`commit`;
		report.release();
		expect(await erased).toMatchObject({ code: 0 });
		expect(await rowsOf(401)).toEqual([0, 0]);
	});
});

describe('person prune', () => {
	async function withOldPersons() {
		const { sql, url } = await ownDatabase();
		await addProject(sql, 'bot', 'bot-key');
		await sql`
			insert into personal_contacts (chat_id, project_id, updated_at)
			select n, p.id, case when n <= 6 then now() - interval '25 months' else now() - interval '23 months' end
			from generate_series(1, 8) n, projects p`;
		// The subscription of chat 1 is active, that of chat 2 has ended long ago, that of chat 3 a month ago.
		await sql`
			insert into direct_subscriptions (chat_id, started_at, ended_at) values
				(1, now() - interval '30 months', null),
				(2, now() - interval '30 months', now() - interval '26 months'),
				(3, now() - interval '25 months', now() - interval '1 month')`;
		const prune = async (...args: string[]) => {
			const call = ['person', 'prune', '--older-than', '24', ...args];
			return contacts(urlAs(url, 'privacy', rolePassword), call);
		};
		const left = async () =>
			(await sql<{ chat: number }[]>`select chat_id::int as chat from personal_contacts order by 1`).map(
				({ chat }) => chat,
			);
		return { sql, prune, left };
	}

	test('first counts the rows, and with --yes deletes exactly those, and records it', async () => {
		const { sql, prune, left } = await withOldPersons();
		const rows = '5 personal_contacts, 1 direct_subscriptions';
		expect(await prune()).toMatchObject({ code: 0, stdout: `To delete: ${rows}. Say --yes to do it.\n` });
		expect(await left()).toHaveLength(8);
		expect(await prune('--yes')).toMatchObject({ code: 0, stdout: `Deleted: ${rows}.\n` });
		expect(await left()).toEqual([1, 7, 8]);
		expect(await sql`select from direct_subscriptions`).toHaveLength(2);
		const recorded = await sql`select details from audit_log where action = 'personal contacts pruned'`;
		expect([...recorded]).toEqual([{ details: { personal_contacts: 5, direct_subscriptions: 1, months: 24 } }]);
	});

	test('deletes in transactions of at most 5,000 rows of a table, each with its audit row, and one that fails loses nothing', async () => {
		const { sql, prune, left } = await withOldPersons();
		await sql`
			insert into personal_contacts (chat_id, project_id, updated_at)
			select 100 + n, p.id, now() - interval '25 months' from generate_series(1, 12000) n, projects p`;
		await sql.unsafe(`
			create function fail_in_second() returns trigger language plpgsql security definer as $$ begin
				if exists (select from audit_log where action = 'personal contacts pruned') then raise exception 'second'; end if;
				return null;
			end $$;
			create trigger fail_in_second before delete on personal_contacts for each statement execute function fail_in_second()`);
		expectOneLine(await prune('--yes'), 1, 'second');
		expect(await left()).toHaveLength(12_008 - 5000);
		await sql`drop function fail_in_second() cascade`;
		expect(await prune('--yes')).toMatchObject({ stdout: expect.stringContaining(' 7005 personal_contacts') });
		const recorded = await sql<{ rows: number }[]>`
			select (details->>'personal_contacts')::int as rows from audit_log
			where action = 'personal contacts pruned' order by id`;
		expect(recorded.map(({ rows }) => rows)).toEqual([5000, 5000, 2005]);
	});

	test('keeps what somebody writes while it waits for that', async () => {
		const { sql, prune, left } = await withOldPersons();
		const writer = await sql.reserve();
		await writer`begin`;
		await writer`update personal_contacts set updated_at = now() where chat_id = 4`;
		await writer`update direct_subscriptions set started_at = now(), ended_at = null, reported_at = now() where chat_id = 2`;
		const pruned = prune('--yes');
		await lockWaiters({ sql });
		await writer`commit`;
		writer.release();
		expect(await pruned).toMatchObject({ stdout: 'Deleted: 4 personal_contacts, 0 direct_subscriptions.\n' });
		expect(await left()).toEqual([1, 4, 7, 8]);
	});
});

test('export and erase fail where nothing is stored', async () => {
	for (const query of [
		['--chat', '404'],
		['--phone', '+12025550404'],
		['--bitrix', '404'],
	])
		for (const word of ['export', 'erase'])
			expectOneLine(await run(word, ...query), 1, 'Nothing is stored about this person');
});
