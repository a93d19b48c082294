import {
	type ContactColumn,
	contactColumnNames,
	contactColumns,
	maxCharacters,
} from '@contacts/common/contacts/company-contact-columns.sql.js';
import { service } from '@contacts/company-contacts/app.js';
import { firstContacts } from '@contacts/company-contacts/sandbox/contacts.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, beforeEach, describe, expect, onTestFinished } from 'vitest';
import { contacts, fileWith } from './testing/command.js';

/** A contact with a value in every column, as in the list. */
const listed: Record<ContactColumn, string | number> = {
	phone: '+79001234567',
	company_ids: '7,1',
	name: 'Ann Lee',
	assigned_by_id: 5,
	trouble_contact: 'true',
	perplexity_reason: 'Asks why',
};
const whole = { id: expect.any(Number), bitrix_id: 1, ...listed };

let app: TestApp;

test.beforeAll(async () => {
	await addProject(database.sql, 'one', 'one-key');
	app = await startTestApp(service, database.url);
});
beforeEach(async () => {
	await database.sql`delete from company_contacts`;
});
afterAll(() => app?.close());

async function list(): Promise<unknown> {
	const response = await app.fetch('/api/company_contacts.list?project=one&api_key=one-key');
	return ((await response.json()) as { data: unknown }).data;
}

const importFile = async (name: string, content: string) =>
	contacts(database.url, ['import', await fileWith(content, name)]);

describe('the list of columns names the columns', () => {
	test.each([
		['company_contacts', ['id', 'bitrix_id', 'created_at', 'updated_at']],
		['crm_sync_staging', ['bitrix_id', 'state']],
	])('of the table %s', async (table, own) => {
		const columns = await database.sql<{ name: string }[]>`
			select column_name as name from information_schema.columns where table_name = ${table} order by ordinal_position`;
		expect(columns.map(({ name }) => name).filter((name) => !own.includes(name))).toEqual(contactColumnNames);
	});

	test('with the maximum length of every text in the table, and its size in a list', async () => {
		const checks = await database.sql<{ name: string; max: number }[]>`
			select found[1] as name, found[2]::int as max
			from pg_constraint, regexp_match(pg_get_constraintdef(oid), 'char_length\\((\\w+)\\) <= (\\d+)') found
			where conrelid = 'company_contacts'::regclass and found is not null`;
		expect(Object.fromEntries(checks.map(({ name, max }) => [name, max]))).toEqual(maxCharacters);
		// A phone has at most 16 characters.
		const texts = contactColumnNames.filter((name) => contactColumns[name].type === 'text' && name !== 'phone');
		expect(texts.filter((name) => 'bytes' in contactColumns[name])).toEqual(texts);
		expect(Object.keys(maxCharacters)).toEqual(texts);
	});

	test('of the OpenAPI document, and of the invented contacts of a sandbox, each with a value and without', async () => {
		const { components } = (await (await app.fetch('/openapi.json')).json()) as {
			components: { schemas: { CompanyContact: { properties: object } } };
		};
		const invented = firstContacts.flatMap((change) => (change.deleted ? [] : [change.contact]));
		for (const fields of [components.schemas.CompanyContact.properties, ...invented])
			expect(Object.keys(fields)).toEqual(['id', 'bitrix_id', ...contactColumnNames]);
		for (const name of contactColumnNames) {
			const isNull = invented.map((contact) => contact[name] === null);
			expect([name, isNull.includes(true), isNull.includes(false)]).toEqual([name, true, true]);
		}
	});

	test('whose changes partners receive', async () => {
		await importFile('contact.ndjson', `${JSON.stringify({ bitrix_id: 1, ...listed })}\n`);
		const versionOf = async () => (await database.sql`select version::int from company_contacts_version`)[0]?.version;
		for (const name of contactColumnNames) {
			const before = await versionOf();
			await database.sql`update company_contacts set ${database.sql(name)} = default`;
			expect([name, await versionOf()]).toEqual([name, before + 1]);
		}
	});
});

describe('a contact with a value in every column comes back complete', () => {
	const record = { bitrix_id: 1, ...listed };

	test.each([
		[
			'contact.csv',
			`${Object.keys(record)}\n${Object.values(record)
				.map((value) => `"${value}"`)
				.join()}\n`,
		],
		['contact.ndjson', `${JSON.stringify(record)}\n`],
	])('from %s', async (name, content) => {
		expect(await importFile(name, content)).toMatchObject({ code: 0 });
		expect(await list()).toEqual([whole]);
		expect((await importFile('again.csv', 'bitrix_id\n1\n')).stdout).toMatch(/0 contacts new, 0 changed/);
		expect(await list()).toEqual([whole]);
	});

	test('from the CRM', async () => {
		const standIn = await startStandIn({
			plan: 'enterprise',
			fields: [
				{ name: 'UF_CRM_1', type: 'boolean' },
				{ name: 'UF_CRM_2', type: 'string' },
			],
		});
		onTestFinished(() => standIn.close());
		standIn.add({
			id: 1,
			name: 'Ann',
			lastName: 'Lee',
			phones: [{ id: 1, valueType: 'WORK', value: '+79001234567' }],
			companyIds: [7, 1],
			assignedById: 5,
			uf: { UF_CRM_1: true, UF_CRM_2: 'Asks why' },
		});
		const environment = {
			BITRIX24_WEBHOOK_URL: standIn.webhookUrl,
			BITRIX24_UF_TROUBLE: 'UF_CRM_1',
			BITRIX24_UF_REASON: 'UF_CRM_2',
		};
		expect(await contacts(database.url, ['sync', '--once', '--full'], { environment })).toMatchObject({ code: 0 });
		expect(await list()).toEqual([whole]);
		for (const name of contactColumnNames) {
			await database.sql`update company_contacts set ${database.sql(name)} = default`;
			expect(await contacts(database.url, ['sync', '--once', '--full'], { environment })).toMatchObject({ code: 0 });
			expect(await list()).toEqual([whole]);
		}
	});
});
