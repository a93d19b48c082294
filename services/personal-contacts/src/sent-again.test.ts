import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { service } from './app.js';
import type { PersonalContact } from './personal-contacts.sql.js';

// An upsert whose response is lost is sent again. It has been committed, and other changes may follow before the second try.

let network: TcpProxy;
let app: TestApp;

test.beforeAll(async () => {
	await addProject(database.sql, 'first', 'first-key');
	await addProject(database.sql, 'second', 'second-key');
	network = await startTcpProxy(database.url);
	app = await startTestApp(service, database.url, {
		database: { url: network.through(database.url), poolSize: 1, deadlineMs: 60_000 },
	});
});
afterAll(async () => {
	await app?.close();
	network?.close();
});

const post = async (contact: PersonalContact) => {
	const response = await app.fetch('/api/personal_contacts?project=first&api_key=first-key', {
		method: 'POST',
		headers: { 'content-type': 'application/json' },
		body: JSON.stringify(contact),
	});
	return response.json();
};
const subscribe = (chat: number) => database.sql`insert into direct_subscriptions (chat_id) values (${chat})`;

/** Saves a contact whose first response is lost after its commit. `then` runs before the second attempt. */
async function saveWithoutResponse(contact: PersonalContact, then: () => Promise<unknown>) {
	// The connection is open and has prepared the statement.
	await post({ chat_id: 900 });
	network.holdResponses();
	const [begun] = await database.sql<{ time: string }[]>`select clock_timestamp()::text as time`;
	const response = post(contact);
	const written = () => database.sql`
		select from personal_contacts
		where chat_id = ${contact.chat_id} and updated_at >= ${begun?.time ?? ''}::text::timestamptz`;
	await expect.poll(written).toHaveLength(1);
	await then();
	const result = await response;
	await network.restore();
	return result;
}

test('an upsert sent again counts as saved when a direct subscription began after its commit', async () => {
	const contact = { chat_id: 1, username: 'ivan', name: 'Ivan', birth_date: '1990-05-17' };
	expect(await saveWithoutResponse(contact, () => subscribe(1))).toEqual({ ok: 'saved' });
	expect(await post(contact)).toEqual({ ok: 'skipped' });
});

test('an upsert of only some fields, sent again, counts as saved', async () => {
	await post({ chat_id: 2, username: 'ivan', birth_date: '1990-05-17' });
	await post({ chat_id: 2, name: 'before' });
	expect(await saveWithoutResponse({ chat_id: 2, name: null }, () => subscribe(2))).toEqual({ ok: 'saved' });
});

test.each([
	['has a field of another value', 3, `update personal_contacts set name = 'another' where chat_id = 3`],
	['is of another project', 4, 'update personal_contacts set project_id = project_id + 1 where chat_id = 4'],
	['was written before', 5, `update personal_contacts set updated_at = now() - interval '1 hour' where chat_id = 5`],
	['is gone', 6, 'delete from personal_contacts where chat_id = 6'],
])('an upsert sent again counts as skipped when the row %s', async (_, chat, change) => {
	const response = saveWithoutResponse({ chat_id: chat, name: 'Ivan' }, async () => {
		await subscribe(chat);
		await database.sql.unsafe(change);
	});
	expect(await response).toEqual({ ok: 'skipped' });
});
