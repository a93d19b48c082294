import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { service } from '../app.js';
import { Copy } from './testing/copy.js';

let app: TestApp;

test.beforeAll(async () => {
	await addProject(database.sql, 'partner', 'partner-key');
	await database.sql`
		insert into company_contacts (bitrix_id, phone, company_ids, name, assigned_by_id)
		select 1000 + n, '+1202555' || lpad((n % 10000)::text, 4, '0'), array[1 + n % 500, 1 + n % 77], 'Alexandra Konstantinova ' || n, 1 + n % 40
		from generate_series(1, 100000) n`;
	app = await startTestApp(service, database.url);
});
afterAll(() => app?.close());

test('a thousand changes among 100,000 contacts fit into one response of less than 300 KB, before compression', async () => {
	const copy = new Copy();
	await copy.follow(app);
	expect(copy.contacts.size).toBe(100_000);
	await database.sql`update company_contacts set name = name || '!' where bitrix_id % 100 = 0`;
	const query = `project=partner&api_key=partner-key&cursor=${copy.cursor}`;
	const headers = { 'accept-encoding': 'identity' };
	const read = async () => (await app.fetch(`/api/company_contacts.changes?${query}`, { headers })).text();
	await expect.poll(async () => (await read()).match(/"deleted":false/g)?.length).toBe(1000);
	const text = await read();
	console.log(`1000 changes: ${text.length} bytes`);
	expect(Buffer.byteLength(text)).toBeLessThan(300_000);
	expect(JSON.parse(text)).toMatchObject({ has_more: false });
});
