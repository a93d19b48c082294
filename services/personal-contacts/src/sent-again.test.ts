import { createTestDatabase, type TestDatabase } from '@contacts/common/testing/database.js';
import { addProject, startTestApp, type TestApp } from '@contacts/common/testing/service.js';
import { startTcpProxy, type TcpProxy } from '@contacts/common/testing/tcp-proxy.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { service } from './app.js';

// An upsert whose response is lost is sent again. It has been committed, and meanwhile the world goes on.

let database: TestDatabase;
let network: TcpProxy;
let app: TestApp;

beforeAll(async () => {
	database = await createTestDatabase();
	await addProject(database.sql, 'first', 'first-key');
	await addProject(database.sql, 'second', 'second-key');
	network = await startTcpProxy(database.url);
	app = await startTestApp(service, database.url, {
		database: { url: network.through(database.url), poolSize: 2 },
	});
});
afterAll(async () => {
	await app?.close();
	network?.close();
	await database?.drop();
});

const post = async (contact: object) => {
	const response = await app.fetch('/api/personal_contacts?project=first&api_key=first-key', {
		method: 'POST',
		headers: { 'content-type': 'application/json' },
		body: JSON.stringify(contact),
	});
	return response.json();
};
const savedSince = (time: string, chats: number[]) =>
	database.sql`
		select from personal_contacts
		where chat_id = any(${`{${chats.join()}}`}::text::bigint[]) and updated_at >= ${time}::text::timestamptz`;
const subscribe = (chat: number) => database.sql`insert into direct_subscriptions (chat_id) values (${chat})`;

/** Saves contacts whose first responses are lost after their commit; the answers come after what is done then. */
async function saveWithoutResponse(contacts: { chat_id: number }[], then: () => Promise<unknown>) {
	// All connections are open, and their next responses are held up.
	await Promise.all(Array.from({ length: 4 }, (_, n) => post({ chat_id: 900 + n })));
	network.holdResponses();
	const [begun] = await database.sql<{ time: string }[]>`select clock_timestamp()::text as time`;
	const answers = Promise.all(contacts.map(post));
	const chats = contacts.map(({ chat_id }) => chat_id);
	await expect.poll(() => savedSince(begun?.time ?? '', chats)).toHaveLength(chats.length);
	await then();
	const all = await answers;
	await network.restore();
	return all;
}

test('it is saved, when a direct subscription begins after its commit', async () => {
	const contact = { chat_id: 1, username: 'ivan', name: 'Ivan', birth_date: '1990-05-17' };
	expect(await saveWithoutResponse([contact], () => subscribe(1))).toEqual([{ ok: 'saved' }]);
	expect(await post(contact)).toEqual({ ok: 'skipped' });
});

test('it is saved, when only some fields were sent', async () => {
	await post({ chat_id: 2, username: 'ivan', birth_date: '1990-05-17' });
	await post({ chat_id: 2, name: 'before' });
	const contact = { chat_id: 2, name: null };
	const answers = saveWithoutResponse([contact, { chat_id: 3 }], async () => {
		await subscribe(2);
		await subscribe(3);
	});
	expect(await answers).toEqual([{ ok: 'saved' }, { ok: 'saved' }]);
});

test('it is skipped, when the row holds something else, or was like that before', async () => {
	const [project] = await database.sql`select id from projects where code = 'second'`;
	const answers = saveWithoutResponse([{ chat_id: 4 }, { chat_id: 5 }, { chat_id: 6 }], async () => {
		await subscribe(4);
		await subscribe(5);
		await subscribe(6);
		await database.sql`update personal_contacts set project_id = ${project?.id} where chat_id = 4`;
		await database.sql`update personal_contacts set updated_at = now() - interval '1 hour' where chat_id = 5`;
		await database.sql`delete from personal_contacts where chat_id = 6`;
	});
	expect(await answers).toEqual([{ ok: 'skipped' }, { ok: 'skipped' }, { ok: 'skipped' }]);
});
