import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';
import { contacts, expectOneLine, expectWrongUsage, replyTo } from '../testing/command.js';

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
		const find = async (...query: string[]) => JSON.parse((await run('export', ...query)).stdout).company_contacts;
		expect(await find('--phone', '+1 (202) 555-0101')).toMatchObject([{ bitrix_id: 1 }, { bitrix_id: 2 }]);
		expect(await find('--bitrix', '2')).toMatchObject([
			{ bitrix_id: 2, phone: '+12025550101', company_ids: '7,1', name: 'Boris' },
		]);
		const [latest] = await auditRows();
		expect(latest).toMatchObject({ action: 'person exported', details: { by: 'bitrix', company_contacts: 1 } });
		expect(JSON.stringify(latest)).not.toMatch(/2025550101|Boris/);
	});

	test('prints company IDs exactly, as the list does', async () => {
		await database.sql`
			insert into company_contacts (bitrix_id, company_ids) values (10, '{9223372036854775807,11}'), (11, null)`;
		for (const [id, companyIds] of [
			['10', '9223372036854775807,11'],
			['11', null],
		] as const) {
			const { stdout } = await run('export', '--bitrix', id);
			expect(JSON.parse(stdout).company_contacts).toMatchObject([{ company_ids: companyIds }]);
		}
	});
});

describe('person erase', () => {
	test('asks first, deletes all data of the chat and none of others, and records it without the data', async () => {
		await addPerson(300);
		await addPerson(301);
		expectOneLine(await run('erase', '--chat', '300'), 2, 'say --yes');
		expect(await rowsOf(300)).toEqual([1, 1]);
		const outcome = await run('erase', '--chat', '300', '--yes');
		expect(outcome).toMatchObject({ code: 0, stdout: 'Deleted: 1 personal contact, 1 subscription.\n' });
		expect(outcome.stderr).toContain('Backups keep them');
		expect([await rowsOf(300), await rowsOf(301)]).toEqual([
			[0, 0],
			[1, 1],
		]);
		const rows = await auditRows();
		expect(rows[0]).toEqual({
			action: 'person erased',
			actor: 'officer',
			role: 'contacts_privacy',
			details: { personal_contacts: 1, direct_subscriptions: 1 },
		});
		expect(JSON.stringify(rows)).not.toMatch(/canary|Canary|1990-05-17|\b300\b/);
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
		expectOneLine(refused, 2, 'Company contact 5, 6 will be deleted for good. Nobody can be asked here: say --yes');
		const outcome = await run('erase', '--phone', '+12025550105', '--yes');
		expect(outcome).toMatchObject({ code: 0, stdout: 'Deleted for good: company contact 5, 6.\n' });
		expect(outcome.stderr).toContain('an import of a file that has it saves it again');
		expect([await contactsWith('+12025550105'), await contactsWith('+12025550107')]).toEqual([0, 1]);
		const [latest] = await auditRows();
		expect(latest).toMatchObject({ action: 'person erased', details: { company_contacts: 2 } });
		expect(JSON.stringify(latest)).not.toContain('2025550105');
		const tombstones = await database.sql`
			select bitrix_id::int from company_contacts_changes where deleted_at is not null order by 1`;
		expect([...tombstones]).toEqual([{ bitrix_id: 5 }, { bitrix_id: 6 }]);
	});

	test('deletes and records nothing when a synchroniser starts while the question is asked', async () => {
		await addContact(8, '+12025550108');
		const before = await auditRows();
		const { code, output } = await replyTo(url(), ['person', 'erase', '--bitrix', '8'], 'y', mirrorCrm);
		expect([code, output]).toEqual([1, expect.stringMatching(/in the CRM: delete contact 8 in Bitrix24/)]);
		expect(await contactsWith('+12025550108')).toBe(1);
		expect(await auditRows()).toEqual(before);
	});

	test('says that nothing was deleted when the chat is erased while the question is asked', async () => {
		await addPerson(400);
		const before = await auditRows();
		const erase = async () => {
			for (const table of tables) await database.sql`delete from ${database.sql(table)} where chat_id = 400`;
		};
		const { code, output } = await replyTo(url(), ['person', 'erase', '--chat', '400'], 'y', erase);
		expect([code, output]).toEqual([1, expect.stringContaining('nothing is stored about chat 400 any more.')]);
		expect(await auditRows()).toEqual(before);
	});

	test('waits for a report on the chat, and deletes what the report has saved', async () => {
		await addPerson(401);
		const report = await database.sql.reserve();
		await report`begin`;
		await report`update direct_subscriptions set ended_at = now(), reported_at = now() where chat_id = 401`;
		const erased = run('erase', '--chat', '401', '--yes');
		const waiting = () => database.sql`
			select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
		await expect.poll(waiting).toHaveLength(1);
		await report`commit`;
		report.release();
		expect(await erased).toMatchObject({ code: 0 });
		expect(await rowsOf(401)).toEqual([0, 0]);
	});
});

test.each([
	['--chat', '404'],
	['--phone', '+12025550404'],
	['--bitrix', '404'],
])('export and erase fail where nothing is stored: %s', async (option, value) => {
	for (const word of ['export', 'erase'])
		expectOneLine(await run(word, option, value), 1, 'Nothing is stored about this person');
});

test.each([
	[[], 'Say one of --chat, --phone and --bitrix'],
	[['--chat', '1', '--bitrix', '2'], 'Say one of'],
	[['--chat', '0'], '--chat takes an integer other than 0'],
	[['--phone', '2025550101'], '--phone takes a valid number with a leading plus'],
	[['--bitrix', '1e3'], '--bitrix takes the positive integer'],
])('%j is wrong usage', async (args, line) => {
	for (const word of ['export', 'erase']) await expectWrongUsage(database.url, ['person', word, ...args], line);
});

test('any other role is refused, and the error names the required one', async () => {
	const operator = urlAs(database.url, 'operator', rolePassword);
	for (const args of [
		['export', '--bitrix', '1'],
		['erase', '--chat', '1', '--yes'],
		['prune', '--older-than', '1', '--yes'],
	])
		expectOneLine(await contacts(operator, ['person', ...args]), 1, 'This needs the role contacts_privacy');
});
