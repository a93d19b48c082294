import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { setOutputSettings } from '@contacts/testing/output-settings.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { service } from './app.js';

let app: TestApp;

test.beforeAll(async () => {
	await addProject(database.sql, 'bot', 'bot-key');
	await setOutputSettings(database.sql);
	await database.sql.unsafe(`
		create sequence writes;
		select nextval('writes');
		create function count_write() returns trigger language plpgsql security definer as
			$$ begin perform nextval('public.writes'); return null; end $$;
		create trigger count_write after insert or update on personal_contacts for each row execute function count_write();
		create trigger count_write after insert or update on direct_subscriptions for each row execute function count_write()`);
	app = await startTestApp(service, database.url);
});
afterAll(() => app?.close());

const post = async (path: string, body: object) => {
	const response = await app.fetch(`/api/${path}?project=bot&api_key=bot-key`, {
		method: 'POST',
		headers: { 'content-type': 'application/json' },
		body: JSON.stringify(body),
	});
	return response.json();
};

/** How often rows were written, also by attempts that were not answered. */
const writes = async () =>
	(await database.sql<[{ value: number }]>`select last_value::int as value from writes`)[0].value;

test.each([9007199254740991, -9007199254740991, 1234567890123456, 7])(
	'an upsert and reports of chat %d are written once, whatever the server’s settings for output are',
	async (chat) => {
		const contact = { chat_id: chat, username: 'back\\slash', name: "d'Arc \\'", birth_date: '1990-05-17' };
		const before = await writes();
		expect(await post('personal_contacts', contact)).toEqual({ ok: 'saved' });
		expect(await post('direct_subscriptions', { chat_id: chat, active: true, at: '2026-01-02T03:04:05Z' })).toEqual({
			ok: 'saved',
		});
		expect(await post('personal_contacts', contact)).toEqual({ ok: 'skipped' });
		expect(
			await database.sql`
			select chat_id::text, username, name, birth_date::text, (started_at at time zone 'UTC')::text as started
			from personal_contacts join direct_subscriptions using (chat_id) where chat_id = ${chat}::text::bigint`,
		).toEqual([{ ...contact, chat_id: String(chat), started: '2026-01-02 03:04:05' }]);
		expect(await writes()).toBe(before + 2);
	},
);
