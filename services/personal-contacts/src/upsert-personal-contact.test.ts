import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';
import { service } from './app.js';

let app: TestApp;
let nextChat = 1000;

test.beforeAll(async () => {
	await addProject(database.sql, 'first', 'first-key');
	await addProject(database.sql, 'second', 'second-key');
	app = await startTestApp(service, database.url);
});
afterAll(() => app?.close());

const json = { 'content-type': 'application/json' };
const post = (body: string | null, headers: Record<string, string> = json, project = 'first') =>
	app.fetch(`/api/personal_contacts?project=${project}&api_key=${project}-key`, { method: 'POST', body, headers });
/** The outcome of an upsert. */
async function save(contact: object, project?: string): Promise<string> {
	const response = await post(JSON.stringify(contact), json, project);
	expect(response.status).toBe(200);
	return response.text();
}

interface Stored {
	username: string | null;
	name: string | null;
	birth_date: string | null;
	project: string;
	created_at: string;
	updated_at: string;
}
const stored = async (chatId: number) => {
	const [row] = await database.sql<Stored[]>`
		select username, name, birth_date::text, p.code as project, c.created_at::text, c.updated_at::text
		from personal_contacts c join projects p on p.id = c.project_id where chat_id = ${chatId}`;
	return row;
};

describe('200, saved', () => {
	test('a present field replaces the value, null clears it, an absent field keeps it', async () => {
		const chatId = nextChat++;
		expect(await save({ chat_id: chatId, username: 'a', name: 'b', birth_date: '1990-05-17' })).toBe('{"ok":"saved"}');
		await save({ chat_id: chatId, username: 'c', name: null });
		expect(await stored(chatId)).toMatchObject({ username: 'c', name: null, birth_date: '1990-05-17' });
		await save({ chat_id: chatId, birth_date: null });
		expect(await stored(chatId)).toMatchObject({ username: 'c', name: null, birth_date: null });
		await save({ chat_id: chatId });
		expect(await stored(chatId)).toMatchObject({ username: 'c', name: null, birth_date: null });
	});

	test('created_at stays, updated_at advances, and the last writing project is recorded', async () => {
		const chatId = nextChat++;
		await save({ chat_id: chatId, name: 'same' });
		const before = await stored(chatId);
		await save({ chat_id: chatId, name: 'same' }, 'second');
		const after = await stored(chatId);
		expect(after?.created_at).toBe(before?.created_at);
		expect(String(after?.updated_at) > String(before?.updated_at)).toBe(true);
		expect([before?.project, after?.project]).toEqual(['first', 'second']);
	});

	test('accepts a media type with parameters and in capitals', async () => {
		const response = await post('{"chat_id":1}', { 'content-type': 'Application/JSON; charset=utf-8' });
		expect(response.status).toBe(200);
	});
});

describe('200, skipped', () => {
	const subscribe = (chatId: number, from: string, to: string | null) => database.sql`
		insert into direct_subscriptions (chat_id, started_at, ended_at)
		values (${chatId}, now() + ${from}::text::interval, now() + ${to}::text::interval)`;

	test('nothing is written while a subscription is active; writes resume after it has ended', async () => {
		const chatId = nextChat++;
		await save({ chat_id: chatId, name: 'before' });
		await subscribe(chatId, '-1 hour', null);
		expect(await save({ chat_id: chatId, name: 'while' }, 'second')).toBe('{"ok":"skipped"}');
		expect(await stored(chatId)).toMatchObject({ name: 'before', project: 'first' });
		await database.sql`update direct_subscriptions set ended_at = now() where chat_id = ${chatId}`;
		expect(await save({ chat_id: chatId, name: 'after' })).toBe('{"ok":"saved"}');
		expect(await stored(chatId)).toMatchObject({ name: 'after' });
	});

	test('a subscription that begins while the write waits is seen: the check and the write are one statement', async () => {
		const chatId = nextChat++;
		const lock = await database.sql.reserve();
		await lock`begin`;
		await lock`lock table personal_contacts in access exclusive mode`;
		const outcome = save({ chat_id: chatId });
		const waiting = () => database.sql`
			select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
		await expect.poll(waiting).toHaveLength(1);
		await subscribe(chatId, '0 seconds', null);
		await lock`commit`;
		lock.release();
		expect(await outcome).toBe('{"ok":"skipped"}');
		expect(await stored(chatId)).toBe(undefined);
	});

	test.each([
		['has just begun', '0 seconds', '1 hour', 'skipped'],
		['ends in the future', '-1 hour', '1 minute', 'skipped'],
		['began in the future, as the clock was set back', '1 hour', null, 'skipped'],
		['has ended', '-2 hours', '-1 hour', 'saved'],
		['of another chat', '-1 hour', null, 'saved'],
	])('a subscription that %s', async (which, from, to, ok) => {
		const chatId = nextChat++;
		await subscribe(which === 'of another chat' ? nextChat++ : chatId, from, to);
		expect(await save({ chat_id: chatId })).toBe(`{"ok":"${ok}"}`);
	});
});

test.each(['[]', 'null', '"x"', null])('400 for a body that is not an object: %s', async (body) => {
	await expectProblem(await post(body, body === null ? {} : json), 400, 'invalid_body');
});

test('413 for more than 16 KiB', async () => {
	expect((await post('{"chat_id":1}'.padEnd(16_384))).status).toBe(200);
	await expectProblem(await post('{"chat_id":1}'.padEnd(16_385)), 413, 'payload_too_large');
});

test.each(['', 'identity'])('an encoding that changes nothing is accepted: "%s"', async (encoding) => {
	expect((await post('{"chat_id":1}', { ...json, 'content-encoding': encoding })).status).toBe(200);
});

test.each<Record<string, string>>([
	{ 'content-type': 'application/jsonp' },
	{ 'content-type': '*/*' },
	{ ...json, 'content-encoding': 'gzip' },
])('415 for %j', async (headers) => {
	await expectProblem(await post('{"chat_id":1}', headers), 415, 'unsupported_media_type');
});
