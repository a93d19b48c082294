import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, beforeEach, describe, expect, onTestFinished } from 'vitest';
import { service } from './app.js';

let app: TestApp;
const environment = { RATE_LIMIT_PER_SECOND: '100000', RATE_LIMIT_BURST: '100000' };
const start = () => startTestApp(service, database.url, { environment });

test.beforeAll(async () => {
	await addProject(database.sql, 'first', 'first-key');
	await database.sql`
		insert into company_contacts (bitrix_id, company_ids)
		values (50, '{1}'), (40, '{7,1}'), (9007199254740991, '{11}'), (30, '{21,10}'), (20, null), (10, '{9223372036854775807}')`;
	app = await start();
});
afterAll(() => app?.close());

const list = (query = '', init?: RequestInit, on = app) =>
	on.fetch(`/api/company_contacts.list?project=first&api_key=first-key${query}`, init);

describe('freshness', () => {
	const headerOf = async (name: string, query = '', headers = {}, on = app) =>
		(await list(query, { headers }, on)).headers.get(name);
	const modified = async (companyId: number, on = app) =>
		Date.parse(String(await headerOf('last-modified', `&company_id=${companyId}`, {}, on)));
	/** Sets the change time of each list to a different time, long ago. */
	const backdate = () => database.sql`
		update company_contacts_lists set changed_at = '2025-11-04 09:12:30.25Z'::timestamptz + company_id % 1000 * interval '1 hour'`;
	const announce = () => database.sql`
		update company_contacts_version set version = version + 1 returning pg_notify('company_contacts_changed', '')`;
	beforeEach(async () => {
		await backdate();
		await announce();
		await expect.poll(() => headerOf('last-modified')).toBe('Tue, 04 Nov 2025 09:12:31 GMT');
	});

	test('Last-Modified is the time of the last change of this list, in whole seconds', async () => {
		expect(await headerOf('last-modified', '&company_id=7')).toBe('Tue, 04 Nov 2025 16:12:31 GMT');
		// A list that has always been empty has never changed.
		expect(await headerOf('last-modified', '&company_id=999')).toBe(null);
	});

	test.each([
		['is linked', `update company_contacts set company_ids = '{7,1,21}' where bitrix_id = 40`, [1, 7, 21]],
		['is no longer linked', `update company_contacts set company_ids = '{7,1}' where bitrix_id = 40`, [1, 7, 21]],
		['is new', `insert into company_contacts (bitrix_id, company_ids) values (70, '{7}')`, [7]],
		['is deleted', 'delete from company_contacts where bitrix_id = 70', [7]],
		['is written without a change', `update company_contacts set company_ids = company_ids, updated_at = now()`, []],
	])('Last-Modified changes for the lists of a contact that %s', async (_, statement, changed) => {
		const companies = [1, 7, 11, 21];
		const before = await Promise.all(companies.map((companyId) => modified(companyId)));
		const sent = Math.floor(Date.now() / 1000) * 1000;
		await database.sql.unsafe(statement);
		await announce();
		// A service that starts now has no list from before the statement.
		const on = changed.length > 0 ? app : await start();
		if (on !== app) onTestFinished(() => on.close());
		const isNew = async () => {
			const times = await Promise.all(companies.map((companyId) => modified(companyId, on)));
			return times.flatMap((time, n) => (time === before[n] ? [] : [companies[n]]));
		};
		await expect.poll(isNew).toEqual(changed);
		for (const companyId of changed) expect(await modified(companyId)).toBeGreaterThanOrEqual(sent);
		const all = Date.parse(String(await headerOf('last-modified', '', {}, on)));
		if (changed.length > 0) expect(all).toBeGreaterThanOrEqual(sent);
		else expect(all).toBe(Date.parse('2025-11-04T09:12:31Z'));
	});

	test.each([
		['Tue, 04 Nov 2025 09:12:31 GMT', 304],
		['Tuesday, 04-Nov-25 09:12:31 GMT', 304],
		['Tue Nov  4 09:12:31 2025', 304],
		['Wed, 05 Nov 2025 09:12:31 GMT', 304],
		['Tue, 04 Nov 2025 09:12:30 GMT', 200],
		['2025-11-05', 200],
		['2025-11-05T00:00:00Z', 200],
		['tomorrow', 200],
		['', 200],
	])('If-Modified-Since: %s leads to %i', async (time, status) => {
		const response = await list('', { headers: { 'if-modified-since': time } });
		expect(response.status).toBe(status);
		expect(response.headers.get('last-modified')).toBe('Tue, 04 Nov 2025 09:12:31 GMT');
		expect((await response.text()) === '').toBe(status === 304);
	});

	test('If-None-Match takes precedence over If-Modified-Since', async () => {
		const ask = async (tag: string, time: string) =>
			(await list('', { headers: { 'if-none-match': tag, 'if-modified-since': time } })).status;
		expect(await ask('"other"', 'Wed, 05 Nov 2025 09:12:31 GMT')).toBe(200);
		expect(await ask(String(await headerOf('etag')), 'Tue, 04 Nov 2025 09:12:30 GMT')).toBe(304);
	});

	test('a client that saw the first of two changes in one second receives the second', async () => {
		const second = Math.floor(Date.now() / 1000) * 1000;
		await database.sql`update company_contacts_lists set changed_at = ${new Date(second)} where company_id = 0`;
		await announce();
		const time = new Date(second).toUTCString();
		await expect.poll(() => headerOf('last-modified')).toBe(time);
		await database.sql`
			update company_contacts_lists set changed_at = ${new Date(second + 1)} where company_id = 0`;
		await announce();
		await expect.poll(async () => (await list('', { headers: { 'if-modified-since': time } })).status).toBe(200);
	});

	test('a client that read the first of two changes in one second before the second was committed receives that one', async () => {
		const [first] = await database.sql<{ second: number }[]>`
			update company_contacts_lists set changed_at = clock_timestamp() where company_id = 0
			returning ceil(extract(epoch from changed_at))::float8 * 1000 as second`;
		await database.sql`update company_contacts set name = 'In the same second' where bitrix_id = 50`;
		const headers = { 'if-modified-since': new Date(first?.second ?? 0).toUTCString() };
		await expect.poll(async () => (await list('', { headers })).status).toBe(200);
	});

	test('a changed list is newer than before, although the clock of the database was set back', async () => {
		const ahead = new Date(Math.ceil(Date.now() / 1000) * 1000 + 3_600_000);
		await database.sql`update company_contacts_lists set changed_at = ${ahead} where company_id = 0`;
		await announce();
		const status = async () => (await list('', { headers: { 'if-modified-since': ahead.toUTCString() } })).status;
		await expect.poll(() => headerOf('last-modified')).not.toBe('Tue, 04 Nov 2025 09:12:31 GMT');
		expect(await status()).toBe(304);
		await database.sql`update company_contacts set name = 'After the clock' where bitrix_id = 50`;
		await expect.poll(status).toBe(200);
	});

	test('Contacts-Synced-At is the last time when the mirror equalled the CRM, and absent before', async () => {
		expect(await headerOf('contacts-synced-at')).toBe(null);
		await database.sql`update crm_sync_state set last_success_at = '2025-11-04 10:30:00.5+01'`;
		await expect.poll(() => headerOf('contacts-synced-at')).toBe('2025-11-04T09:30:00.500Z');
		expect(await headerOf('contacts-synced-at', '', { 'if-none-match': '*' })).toBe('2025-11-04T09:30:00.500Z');
		expect(await headerOf('last-modified')).toBe('Tue, 04 Nov 2025 09:12:31 GMT');
		await database.sql`update crm_sync_state set last_success_at = null`;
	});
});
