import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { setOutputSettings } from '@contacts/testing/output-settings.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';
import { service } from './app.js';

let app: TestApp;
const environment = { RATE_LIMIT_PER_SECOND: '100000', RATE_LIMIT_BURST: '100000' };

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
			(10, null, '{9223372036854775807}', 'Largest', null, false, null),
			(5, null, null, null, null, false, null)`;
	// What is listed must not depend on them.
	await setOutputSettings(database.sql);
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
	test('returns all contacts, ordered by id, with exactly these fields', async () => {
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
			count: 7,
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
				{ ...none, id: 7, bitrix_id: 5 },
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
		const ofAnother = await tagOf('&company_id=1');
		expect(ofAnother).not.toBe(tag);
		for (const header of ['"other"', ofAnother, tag.slice(1, -1), `${tag.slice(0, -1)}x"`])
			expect((await list('', { headers: { 'if-none-match': header } })).status).toBe(200);
	});

	test('no longer once a contact of the list has changed, is new or is deleted', async () => {
		for (const statement of [
			`update company_contacts set company_ids = '{7,1,21}' where bitrix_id = 40`,
			`insert into company_contacts (bitrix_id, company_ids) values (70, '{7}')`,
			`update company_contacts set company_ids = null where bitrix_id = 70`,
			'delete from company_contacts where bitrix_id = 40',
		]) {
			const before = await tagOf('&company_id=7');
			await database.sql.unsafe(statement);
			const status = async () => (await list('&company_id=7', { headers: { 'if-none-match': before } })).status;
			await expect.poll(status).toBe(200);
		}
	});
});

describe('encodings', () => {
	const decoders: Record<string, (bytes: Buffer) => Buffer> = {
		identity: (bytes) => bytes,
		gzip: gunzipSync,
		br: brotliDecompressSync,
	};
	test.beforeAll(async () => {
		await database.sql`
			insert into company_contacts (bitrix_id, name, company_ids)
			select 1000 + n, 'Contact ' || n, array[5000] from generate_series(1, 200) n`;
	});

	/** The raw bytes: fetch would decode them. */
	async function raw(accept: string, more = '') {
		const line = accept === '' ? '' : `Accept-Encoding: ${accept}\r\n`;
		const response = await app.raw(
			`GET /api/company_contacts.list?project=first&api_key=first-key&company_id=5000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${line}${more}\r\n`,
		);
		const at = response.indexOf('\r\n\r\n');
		const header = (name: string) => new RegExp(`\r\n${name}: ([^\r]*)`, 'i').exec(response.slice(0, at))?.[1];
		return { status: response.slice(9, 12), header, body: Buffer.from(response.slice(at + 4), 'latin1') };
	}

	test.each([
		['', 'identity'],
		['gzip', 'gzip'],
		['br;q=0, *', 'gzip'],
		['*, gzip;q=0, br;q=0.000', 'identity'],
		['gzip ; Q=0.9, br; q=0.1', 'gzip'],
		['deflate, gzip, br, zstd', 'br'],
		['identity;q=0', 'identity'],
	])('Accept-Encoding: %s selects %s', async (accept, encoding) => {
		const { header, body } = await raw(accept);
		expect(header('content-encoding') ?? 'identity').toBe(encoding);
		expect(header('vary')).toBe('Accept-Encoding');
		expect(Number(header('content-length'))).toBe(body.length);
		expect(JSON.parse(String(decoders[encoding]?.(body))).count).toBe(200);
	});

	test('each encoding has its own entity tag and its own 304', async () => {
		const tags = new Set<string>();
		for (const accept of ['identity', 'gzip', 'br']) {
			const tag = String((await raw(accept)).header('etag'));
			const again = await raw(accept, `If-None-Match: ${tag}\r\n`);
			expect([again.status, again.header('etag'), again.header('vary')]).toEqual(['304', tag, 'Accept-Encoding']);
			tags.add(tag);
		}
		expect(tags.size).toBe(3);
	});
});

test('Contacts-Synced-At and a metric are the last time when the mirror equalled the CRM, and absent before', async () => {
	const headerOf = async (headers = {}) => (await list('', { headers })).headers.get('contacts-synced-at');
	const metric = async () =>
		/^crm_last_success_timestamp_seconds (\S+)$/m.exec(await (await app.fetch('/metrics')).text())?.[1];
	expect([await headerOf(), await metric()]).toEqual([null, 'Nan']);
	await database.sql`update crm_sync_state set last_success_at = '2025-11-04 10:30:00.5+01'`;
	await expect.poll(() => headerOf()).toBe('2025-11-04T09:30:00.500Z');
	expect(await headerOf({ 'if-none-match': '*' })).toBe('2025-11-04T09:30:00.500Z');
	await expect.poll(async () => Number(await metric())).toBe(Date.parse('2025-11-04T09:30:00.500Z') / 1000);
});

test.each(['{}', '{{7,1}}', '{7,0}', '{7,null}'])(
	'SQL by hand can’t store %s as the companies of a contact',
	async (ids) => {
		const insert = database.sql`insert into company_contacts (bitrix_id, company_ids) values (80, ${ids}::text::bigint[])`;
		await expect(insert).rejects.toMatchObject({ code: '23514' });
	},
);
