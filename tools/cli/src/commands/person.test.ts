import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { contacts, expectOneLine, expectWrongUsage } from '../testing/command.js';

const run = (...args: string[]) =>
	contacts(urlAs(database.url, 'privacy', rolePassword), ['person', ...args], {
		environment: { CONTACTS_ACTOR: 'officer' },
	});

/** Personal data that must be in no audit row. */
const canary = 'Canary Name';

test.beforeAll(async () => {
	await addProject(database.sql, 'bot', 'bot-key');
});

/** Stores everything that can be stored about a chat. */
async function addPerson(chatId: number): Promise<void> {
	await database.sql`
		insert into personal_contacts (chat_id, username, name, birth_date, project_id)
		select ${chatId}::float8::bigint, 'canary', ${canary}, '1990-05-17', id from projects where code = 'bot'`;
	await database.sql`
		insert into direct_subscriptions (chat_id, started_at, ended_at) values
			(${chatId}::float8::bigint, '2026-01-01', '2026-02-01')`;
}

const addContact = (bitrixId: number, phone: string) => database.sql`
	insert into company_contacts (bitrix_id, phone, company_ids, name) values (${bitrixId}, ${phone}, '{7,1}', 'Boris')`;

const tables = ['personal_contacts', 'direct_subscriptions'];
async function rowsOf(chatId: number): Promise<number[]> {
	const counts = tables.map(
		(table) =>
			database.sql<{ count: number }[]>`select count(*)::int from ${database.sql(table)} where chat_id = ${chatId}`,
	);
	return (await Promise.all(counts)).map(([row]) => row?.count ?? -1);
}

/** The newest audit row. */
async function lastAudit() {
	const [row] = await database.sql`select action, actor, role, details from audit_log order by id desc limit 1`;
	return row;
}

describe('person', () => {
	test.each([
		['--chat', '404'],
		['--phone', '+12025550404'],
		['--bitrix', '404'],
	])('fails where nothing is stored: %s', async (option, value) => {
		for (const word of ['export', 'erase'])
			expectOneLine(await run(word, option, value), 1, 'Nothing is stored about this person');
	});
});

describe('person export', () => {
	test('prints every column of every row of a chat', async () => {
		await addPerson(200);
		const outcome = await run('export', '--chat', '200');
		expect(outcome).toMatchObject({ code: 0, stderr: '' });
		const person = JSON.parse(outcome.stdout) as Record<string, Record<string, unknown>[]>;
		expect(person.personal_contacts).toMatchObject([
			{ chat_id: 200, username: 'canary', name: canary, birth_date: '1990-05-17', project: 'bot' },
		]);
		expect(person.direct_subscriptions).toHaveLength(1);
		expect(person.company_contacts).toEqual([]);
		for (const table of tables) {
			const columns = await database.sql<{ name: string }[]>`
				select column_name as name from information_schema.columns where table_name = ${table} and column_name <> 'project_id'`;
			const names = Object.keys(person[table]?.[0] ?? {});
			expect(names).toEqual(expect.arrayContaining(columns.map(({ name }) => name)));
		}
	});

	test('prints a company contact, and records the export without the data', async () => {
		await addContact(3, '+12025550103');
		const outcome = await run('export', '--bitrix', '3');
		expect(JSON.parse(outcome.stdout).company_contacts).toMatchObject([
			{ bitrix_id: 3, phone: '+12025550103', company_ids: '7,1', name: 'Boris' },
		]);
		const audit = await lastAudit();
		expect(audit).toMatchObject({ action: 'person exported', details: { by: 'bitrix', company_contacts: 1 } });
		expect(JSON.stringify(audit)).not.toMatch(/2025550103|Boris/);
	});

	test('prints company IDs exactly, as the list does', async () => {
		await database.sql`insert into company_contacts (bitrix_id, company_ids) values (10, '{9223372036854775807,11}'), (11, null)`;
		for (const [id, companyIds] of [
			['10', '9223372036854775807,11'],
			['11', null],
		] as const) {
			const outcome = await run('export', '--bitrix', id);
			expect(JSON.parse(outcome.stdout).company_contacts).toMatchObject([{ company_ids: companyIds }]);
		}
	});

	test('finds company contacts by phone, however it is written, and by the ID in the CRM', async () => {
		await addContact(1, '+12025550101');
		await addContact(2, '+12025550101');
		const idsOf = async (...query: string[]) =>
			JSON.parse((await run('export', ...query)).stdout).company_contacts.map(
				(row: { bitrix_id: number }) => row.bitrix_id,
			);
		expect(await idsOf('--phone', '+1 (202) 555-0101')).toEqual([1, 2]);
		expect(await idsOf('--bitrix', '2')).toEqual([2]);
	});

	test('covers every table that refers to a chat or a contact', async () => {
		const columns = await database.sql<{ table: string }[]>`
			select table_name as table from information_schema.columns
			where table_schema = 'public' and column_name = 'chat_id' order by 1`;
		expect(columns.map(({ table }) => table)).toEqual([...tables].sort());
	});
});

describe('person erase', () => {
	test('deletes all data of the chat and none of others, and records it without the data', async () => {
		await addPerson(300);
		await addPerson(301);
		const outcome = await run('erase', '--chat', '300', '--yes');
		expect(outcome).toMatchObject({ code: 0, stdout: 'Deleted: 1 personal contact, 1 subscription.\n' });
		expect(outcome.stderr).toContain('Backups keep them');
		expect(await rowsOf(300)).toEqual([0, 0]);
		expect(await rowsOf(301)).toEqual([1, 1]);
		const audit = await lastAudit();
		expect(audit).toEqual({
			action: 'person erased',
			actor: 'officer',
			role: 'contacts_privacy',
			details: { personal_contacts: 1, direct_subscriptions: 1 },
		});
		const log = await database.sql<
			{ log: string }[]
		>`select string_agg(a::text, ' ') as log from audit_log a where actor = 'officer'`;
		expect(log[0]?.log).not.toMatch(/canary|Canary|1990-05-17|\b300\b/);
	});

	test('asks for confirmation, so without a terminal it does nothing', async () => {
		await addPerson(302);
		expectOneLine(await run('erase', '--chat', '302'), 2, 'say --yes');
		expect(await rowsOf(302)).toEqual([1, 1]);
	});
});

describe('wrong usage', () => {
	test.each([
		[[], 'Say one of --chat, --phone and --bitrix'],
		[['--chat', '1', '--bitrix', '2'], 'Say one of'],
		[['--chat', '0'], '--chat takes an integer other than 0'],
		[['--phone', '2025550101'], '--phone takes a valid number with a leading plus'],
		[['--bitrix', '1e3'], '--bitrix takes the positive integer'],
	])('%j', async (args, line) => {
		for (const word of ['export', 'erase']) await expectWrongUsage(database.url, ['person', word, ...args], line);
	});

	test('any other role is refused, and the error names the required one', async () => {
		const operator = urlAs(database.url, 'operator', rolePassword);
		for (const args of [
			['export', '--bitrix', '1'],
			['erase', '--chat', '1', '--yes'],
			['prune', '--older-than', '1', '--yes'],
		]) {
			expectOneLine(await contacts(operator, ['person', ...args]), 1, 'This needs the role contacts_privacy');
		}
	});
});
