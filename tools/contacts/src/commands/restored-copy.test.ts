import { join } from 'node:path';
import { service as companyContacts } from '@contacts/company-contacts/app.js';
import { service as personalContacts } from '@contacts/personal-contacts/app.js';
import { startTestApp, type TestApp } from '@contacts/testing/app.js';
import type { TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database as source } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';
import { file, test } from '../testing/backed-up.js';
import { readEverything } from '../testing/backup.js';
import { contacts } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

async function start(
	database: TestDatabase,
	service: typeof companyContacts | typeof personalContacts,
): Promise<TestApp> {
	// Each app has its own variables, and the test sets none.
	const app = await startTestApp(service as typeof companyContacts, database.url);
	onTestFinished(() => app.close());
	return app;
}

describe('a restored copy', () => {
	test('is the same in every table, and assigns the same next IDs', async () => {
		const copy = await ownDatabase();
		const outcome = await contacts(copy.url, ['restore', file]);
		expect(outcome).toMatchObject({ code: 0, stderr: '' });
		expect(outcome.stdout).toMatch(/^Restored \d{4} rows of 10 tables, as they were at 20\d\d-[\d-]+T[\d:.]+Z\.\n$/);
		const everything = await readEverything(source.sql);
		expect(await readEverything(copy.sql)).toEqual(everything);
		for (const rows of Object.values(everything)) expect(rows.length).toBeGreaterThan(0);
		const insert = 'insert into company_contacts (bitrix_id) values (4711) returning id::int';
		const [[there], [here]] = await Promise.all([source.sql.unsafe(insert), copy.sql.unsafe(insert)]);
		await source.sql`delete from company_contacts where bitrix_id = 4711`;
		expect(here).toEqual(there);
		// The row with the highest ID was deleted before the backup. The ID is not reused.
		expect(here?.id).toBe(1004);
	});

	test('serves the same list to the same keys, byte by byte, from processes that were already running', async () => {
		const copy = await ownDatabase();
		const [app, original] = [await start(copy, companyContacts), await start(source, companyContacts)];
		const path = '/api/company_contacts.list?project=alpha&api_key=alpha-key';
		expect((await app.fetch(path)).status).toBe(401);
		expect((await contacts(copy.url, ['restore', file])).code).toBe(0);
		await expect.poll(async () => (await app.fetch(path)).status).toBe(200);
		for (const query of ['', '&company_id=1', '&company_id=9223372036854775807']) {
			const [mine, theirs] = [await app.fetch(path + query), await original.fetch(path + query)];
			expect(mine.headers.get('etag')).toBe(theirs.headers.get('etag'));
			const body = Buffer.from(await mine.arrayBuffer());
			expect(body.equals(Buffer.from(await theirs.arrayBuffer()))).toBe(true);
			expect(JSON.parse(body.toString()).count).toBeGreaterThan(0);
		}
		expect((await app.fetch(path.replace('alpha-key', 'revoked-key'))).status).toBe(401);
	});

	test('keeps personal contacts and their subscriptions', async () => {
		const copy = await ownDatabase();
		expect((await contacts(copy.url, ['restore', file])).code).toBe(0);
		const app = await start(copy, personalContacts);
		const save = async (chatId: number) => {
			const response = await app.fetch('/api/personal_contacts?project=beta&api_key=beta-key', {
				method: 'POST',
				headers: { 'content-type': 'application/json' },
				body: JSON.stringify({ chat_id: chatId, username: 'new' }),
			});
			return response.json();
		};
		expect(await save(1)).toEqual({ ok: 'skipped' });
		expect(await save(3)).toEqual({ ok: 'saved' });
		const rows = await copy.sql`
			select chat_id::int as id, username, name, birth_date::text as born from personal_contacts where chat_id in (1, 3) order by 1`;
		expect([...rows]).toEqual([
			{ id: 1, username: null, name: '', born: '9999-12-31' },
			{ id: 3, username: 'new', name: '\\', born: '9999-12-31' },
		]);
	});

	test('is due for a full pass, which deletes what the CRM has deleted since the backup', async () => {
		await source.sql`update crm_sync_state set last_full_at = now()`;
		const path = join(await temporaryFolder(), 'later.backup');
		expect((await contacts(source.url, ['backup', path])).code).toBe(0);
		await source.sql`update crm_sync_state set last_full_at = null`;
		const copy = await ownDatabase();
		expect((await contacts(copy.url, ['restore', path])).code).toBe(0);
		expect([...(await copy.sql`select last_full_at from crm_sync_state`)]).toEqual([{ last_full_at: null }]);
	});

	test('makes clients with a copy of the contacts start again', async () => {
		const copy = await ownDatabase();
		const epochOf = async () => (await copy.sql`select epoch from company_contacts_version`)[0]?.epoch;
		const before = await epochOf();
		expect((await contacts(copy.url, ['restore', file])).code).toBe(0);
		expect(await epochOf()).not.toBe(before);
	});
});
