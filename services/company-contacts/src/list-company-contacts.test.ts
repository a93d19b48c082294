import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { timeUntil } from '@contacts/testing/machine-delays.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';
import { service } from './app.js';

let app: TestApp;

test.beforeAll(async () => {
	await addProject(database.sql, 'first', 'first-key');
	await addProject(database.sql, 'second', 'second-key');
	await database.sql`
		insert into company_contacts
			(bitrix_id, phone, company_ids, name, assigned_by_id, trouble_contact, perplexity_reason)
		values
			(50, '+79001234567', '{1}', 'Only "one"', 5, true, E'two\nlines'),
			(40, null, '{7,1}', 'Seven and one', null, false, null),
			(9007199254740991, null, '{11}', null, null, false, null),
			(30, null, '{21,10}', 'Иван 🙂', 9007199254740991, false, null),
			(20, null, null, 'None', null, false, null),
			(10, null, '{9223372036854775807}', 'Largest', null, false, null)`;
	const environment = { RATE_LIMIT_PER_SECOND: '100000', RATE_LIMIT_BURST: '100000' };
	app = await startTestApp(service, database.url, { environment });
});
afterAll(() => app?.close());

const list = (query = '', init?: RequestInit, project = 'first') =>
	app.fetch(`/api/company_contacts.list?project=${project}&api_key=${project}-key${query}`, init);
const idsOf = async (query: string) => {
	const response = await list(query);
	expect(response.status).toBe(200);
	const { count, data } = (await response.json()) as { count: number; data: { bitrix_id: number }[] };
	expect(count).toBe(data.length);
	return data.map(({ bitrix_id }) => bitrix_id);
};

describe('200', () => {
	test('returns all contacts, ordered by id, with exactly the eight fields', async () => {
		const response = await list();
		expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
		expect(response.headers.get('cache-control')).toBe('private, no-cache');
		const none = {
			phone: null,
			company_ids: null,
			name: null,
			assigned_by_id: null,
			trouble_contact: null,
			perplexity_reason: null,
		};
		expect(JSON.parse(await response.text())).toEqual({
			count: 6,
			data: [
				{
					id: 1,
					bitrix_id: 50,
					phone: '+79001234567',
					company_ids: '1',
					name: 'Only "one"',
					assigned_by_id: 5,
					trouble_contact: 'true',
					perplexity_reason: 'two\nlines',
				},
				{ ...none, id: 2, bitrix_id: 40, company_ids: '7,1', name: 'Seven and one' },
				{ ...none, id: 3, bitrix_id: 9007199254740991, company_ids: '11' },
				{ ...none, id: 4, bitrix_id: 30, company_ids: '21,10', name: 'Иван 🙂', assigned_by_id: 9007199254740991 },
				{ ...none, id: 5, bitrix_id: 20, name: 'None' },
				{ ...none, id: 6, bitrix_id: 10, company_ids: '9223372036854775807', name: 'Largest' },
			],
		});
	});

	test.each([
		['1', [50, 40]],
		['7', [40]],
		['11', [9007199254740991]],
		['10', [30]],
		['21', [30]],
		['2', []],
		['9223372036854775807', [10]],
		['9223372036854775806', []],
	])('returns exactly the contacts of company %s', async (companyId, expected) => {
		expect(await idsOf(`&company_id=${companyId}`)).toEqual(expected);
	});

	test('returns any text as it is stored, as JSON in its shortest form', async () => {
		const texts = [
			// PostgreSQL stores every character except U+0000.
			String.fromCharCode(...Array.from({ length: 255 }, (_, n) => n + 1)),
			'%s %1$s %% "," \\" \\\\ \u2028\u2029\ufeff\uffff e\u0301 👩‍👩‍👧 \u{10ffff}',
			'',
			' null ',
		];
		await database.sql`
			insert into company_contacts (bitrix_id, company_ids, name, perplexity_reason)
			select 100 + n, '{77}', text, reverse(text)
			from json_array_elements_text(${JSON.stringify(texts)}::text::json) with ordinality as row (text, n)`;
		const stored = await database.sql<{ name: string; perplexity_reason: string }[]>`
			select name, perplexity_reason from company_contacts where company_ids = '{77}' order by id`;
		expect(stored.map(({ name }) => name)).toEqual(texts);

		const text = await (await list('&company_id=77')).text();
		await database.sql`delete from company_contacts where company_ids = '{77}'`;
		expect(JSON.parse(text).data).toMatchObject([...stored]);
		expect(text).toBe(JSON.stringify(JSON.parse(text)));
	});

	test('returns null for an empty array of companies, which SQL by hand can store', async () => {
		await database.sql`insert into company_contacts (bitrix_id, company_ids) values (60, '{}')`;
		const stored = async () => {
			const { data } = (await (await list()).json()) as { data: { bitrix_id: number; company_ids: unknown }[] };
			return data.find(({ bitrix_id }) => bitrix_id === 60)?.company_ids;
		};
		await expect.poll(stored).toBe(null);
		await database.sql`delete from company_contacts where bitrix_id = 60`;
		await expect.poll(stored).toBe(undefined);
	});

	test('returns an empty result as an empty list', async () => {
		expect(await (await list('&company_id=2')).text()).toBe('{"count":0,"data":[]}');
	});

	test('returns the same list to every project', async () => {
		const texts = await Promise.all([list(), list('', {}, 'second')].map(async (response) => (await response).text()));
		expect(new Set(texts).size).toBe(1);
	});

	test('decodes percent-encoded parameters', async () => {
		expect(await idsOf('&company%5Fid=%37')).toEqual([40]);
	});
});

describe('304', () => {
	const tagOf = async (query = '') => String((await list(query)).headers.get('etag'));

	test('for the entity tag of the same list and no other', async () => {
		const tag = await tagOf();
		expect(tag).toMatch(/^"[\w-]{20,}"$/);
		for (const header of [tag, `W/${tag}`, `"other", ${tag}`, '*']) {
			const response = await list('', { headers: { 'if-none-match': header } });
			expect([response.status, await response.text()]).toEqual([304, '']);
			expect(response.headers.get('etag')).toBe(tag);
			expect(response.headers.get('cache-control')).toBe('private, no-cache');
		}
		expect(await tagOf('&company_id=1')).not.toBe(tag);
		expect((await list('', { headers: { 'if-none-match': '"other"' } })).status).toBe(200);
	});

	test('no longer once a contact has changed', async () => {
		const tag = await tagOf('&company_id=7');
		await database.sql`update company_contacts set name = 'Changed' where bitrix_id = 40`;
		const isNew = async () => (await list('&company_id=7', { headers: { 'if-none-match': tag } })).status === 200;
		expect(await timeUntil(isNew, () => database.sql`select 1`)).toBeLessThan(500);
		expect(await (await list('&company_id=7')).text()).toContain('Changed');
		await database.sql`update company_contacts set name = 'Seven and one' where bitrix_id = 40`;
	});

	test('not without valid credentials', async () => {
		const response = await app.fetch('/api/company_contacts.list', { headers: { 'if-none-match': '*' } });
		await expectProblem(response, 401, 'unauthorized');
	});
});

describe('400', () => {
	test.each([
		'',
		'0',
		'-1',
		'1.5',
		'1e3',
		'0x10',
		'0b11',
		'%2B5',
		'+5',
		'%205%20',
		'5%20',
		'abc',
		'01',
		'1e400',
		'1_000',
		'1,2',
		'%D9%A1',
		'1%00',
		'NaN',
		'null',
		'9223372036854775808',
		'99999999999999999999',
		'1&company_id=1',
		'1&company_id=2',
	])('company_id=%s', async (value) => {
		const problem = await expectProblem(await list(`&company_id=${value}`), 400, 'invalid_query');
		expect(problem.errors?.map(({ field }) => field)).toEqual(['company_id']);
	});

	test.each(['%FF', '%zz', '1%'])('company_id=%j, which is malformed percent-encoding', async (value) => {
		const problem = await expectProblem(await list(`&company_id=${value}`), 400, 'invalid_query');
		expect(problem.errors).toEqual([{ field: 'query', message: 'must be percent-encoded UTF-8' }]);
	});

	test('never echoes what was sent', async () => {
		expect(await (await list('&company_id=canary')).text()).not.toContain('canary');
	});
});
