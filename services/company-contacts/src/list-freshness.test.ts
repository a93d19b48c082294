import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect, onTestFinished } from 'vitest';
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

test.each([
	['is linked', `update company_contacts set company_ids = '{7,1,21}' where bitrix_id = 40`],
	['is no longer linked', `update company_contacts set company_ids = '{7,1}' where bitrix_id = 40`],
	['is new', `insert into company_contacts (bitrix_id, company_ids) values (70, '{7}')`],
	['is deleted', 'delete from company_contacts where bitrix_id = 70'],
])('the ETag of a list changes when a contact of it %s', async (_, statement) => {
	const tag = async () => (await list('&company_id=7')).headers.get('etag');
	const before = await tag();
	await database.sql.unsafe(statement);
	await expect.poll(tag).not.toBe(before);
});

test('the ETag of a list stays when its contacts are written without a change', async () => {
	const tag = async (on = app) => (await list('', {}, on)).headers.get('etag');
	const before = await tag();
	await database.sql`update company_contacts set company_ids = company_ids`;
	// A service that starts now has no list from before the statement.
	const other = await start();
	onTestFinished(() => other.close());
	expect(await tag(other)).toBe(before);
});

test('no response has a Last-Modified, and If-Modified-Since has no effect', async () => {
	const response = await list('', { headers: { 'if-modified-since': new Date(Date.now() + 60_000).toUTCString() } });
	expect([response.status, response.headers.get('last-modified')]).toEqual([200, null]);
});

test('Contacts-Synced-At is the last time when the mirror equalled the CRM, and absent before', async () => {
	const headerOf = async (headers = {}) => (await list('', { headers })).headers.get('contacts-synced-at');
	expect(await headerOf()).toBe(null);
	await database.sql`update crm_sync_state set last_success_at = '2025-11-04 10:30:00.5+01'`;
	await expect.poll(() => headerOf()).toBe('2025-11-04T09:30:00.500Z');
	expect(await headerOf({ 'if-none-match': '*' })).toBe('2025-11-04T09:30:00.500Z');
});
