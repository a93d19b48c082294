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

const post = (body: string | Buffer, init: RequestInit & { project?: string } = {}) => {
	const { project = 'first', headers, ...rest } = init;
	return app.fetch(`/api/personal_contacts?project=${project}&api_key=${project}-key`, {
		method: 'POST',
		body: typeof body === 'string' ? body : new Uint8Array(body),
		headers: { 'content-type': 'application/json', ...headers },
		...rest,
	});
};
const save = (contact: object, project?: string) =>
	post(JSON.stringify(contact), project === undefined ? {} : { project });

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

describe('200', () => {
	test('saves every field as it was sent', async () => {
		const chatId = nextChat++;
		const response = await save({
			chat_id: chatId,
			username: 'ivan',
			name: 'Иван Петров 🙂',
			birth_date: '2024-02-29',
		});
		expect(response.status).toBe(200);
		expect(response.headers.get('content-type')).toMatch(/^application\/json/);
		expect(await response.text()).toBe('{"ok":"saved"}');
		expect(await stored(chatId)).toMatchObject({
			username: 'ivan',
			name: 'Иван Петров 🙂',
			birth_date: '2024-02-29',
			project: 'first',
		});
	});

	test('a present field replaces the value, null clears it, an absent field keeps it', async () => {
		const chatId = nextChat++;
		await save({ chat_id: chatId, username: 'a', name: 'b', birth_date: '1990-05-17' });
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

	test.each([Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, -1, 1])('accepts the chat_id %d', async (chatId) => {
		expect((await save({ chat_id: chatId, name: 'edge' })).status).toBe(200);
		expect(await stored(chatId)).toMatchObject({ name: 'edge' });
	});

	test.each([
		['1.0', 1],
		['1e3', 1000],
		['-2.50E+1', -25],
		['1200e-2', 12],
		['9007199254740991.000', Number.MAX_SAFE_INTEGER],
		['0.9007199254740991e16', Number.MAX_SAFE_INTEGER],
	])('accepts the chat_id %s, an integer in another notation', async (written, chatId) => {
		expect((await post(`{"chat_id":${written},"name":${JSON.stringify(written)}}`)).status).toBe(200);
		expect(await stored(chatId)).toMatchObject({ name: written });
	});

	test('accepts a text that looks like an inexact number', async () => {
		const chatId = nextChat++;
		const text = '\\"0.99999999999999999999\\",1e-400 \\\\';
		expect((await post(`{"username":"${text}","chat_id":${chatId},"name":"{1e999:[0.1]}"}`)).status).toBe(200);
		expect(await stored(chatId)).toMatchObject({ username: JSON.parse(`"${text}"`), name: '{1e999:[0.1]}' });
	});

	test('uses the later of two chat_ids, as it is written', async () => {
		const chatId = nextChat++;
		expect((await post(`{"chat_id":0.99999999999999999999,"chat_id":${chatId}}`)).status).toBe(200);
		const response = await post(`{"chat_id":${chatId},"chat_id":0.99999999999999999999}`);
		await expectProblem(response, 400, 'invalid_body');
	});

	test.each(['0001-01-01', '1899-12-31', '2000-02-29', '9999-12-31'])('does not shift the date %s', async (date) => {
		const chatId = nextChat++;
		expect((await save({ chat_id: chatId, birth_date: date })).status).toBe(200);
		expect((await stored(chatId))?.birth_date).toBe(date);
	});

	test('counts characters, not code units: it accepts 255 surrogate pairs', async () => {
		const chatId = nextChat++;
		expect((await save({ chat_id: chatId, name: '🙂'.repeat(255) })).status).toBe(200);
		expect((await stored(chatId))?.name).toBe('🙂'.repeat(255));
	});

	test('accepts a media type with parameters and in capitals, and a byte order mark', async () => {
		const body = JSON.stringify({ chat_id: nextChat++ });
		expect((await post(body, { headers: { 'content-type': 'Application/JSON; charset=utf-8' } })).status).toBe(200);
		expect((await post(`\uFEFF${body}`)).status).toBe(200);
	});

	test('accepts a body of exactly 16 KiB', async () => {
		const body = JSON.stringify({ chat_id: nextChat++ });
		expect((await post(body.padEnd(16_384))).status).toBe(200);
	});

	test('500 upserts of one chat at once leave one row and no error', async () => {
		const chatId = nextChat++;
		const responses = await Promise.all(
			Array.from({ length: 500 }, async (_, index) => {
				const send = () => save({ chat_id: chatId, name: `name ${index}` });
				let response = await send();
				// After a pause of the machine the service may shed load. Callers then repeat their requests.
				while (response.status === 503) response = await send();
				return response;
			}),
		);
		expect(new Set(responses.map((response) => response.status))).toEqual(new Set([200]));
		const [row] = await database.sql<
			{ count: number }[]
		>`select count(*)::int from personal_contacts where chat_id = ${chatId}`;
		expect(row?.count).toBe(1);
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
		const response = await save({ chat_id: chatId, name: 'while' }, 'second');
		expect(response.status).toBe(200);
		expect(await response.text()).toBe('{"ok":"skipped"}');
		expect(await stored(chatId)).toMatchObject({ name: 'before', project: 'first' });

		await database.sql`update direct_subscriptions set ended_at = now() where chat_id = ${chatId}`;
		expect(await (await save({ chat_id: chatId, name: 'after' })).text()).toBe('{"ok":"saved"}');
		expect(await stored(chatId)).toMatchObject({ name: 'after' });
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
		expect(await (await save({ chat_id: chatId })).json()).toEqual({ ok });
	});
});

test('personal data appears in no log line', async () => {
	await save({ chat_id: nextChat++, username: 'canary-user', name: 'Canary Name', birth_date: '1911-11-11' });
	await post('{"chat_id":1,"name":"Canary Name\\u0000"}');
	await database.sql`alter table personal_contacts add constraint canary check (name <> 'Canary Name 2')`;
	await expectProblem(await save({ chat_id: nextChat++, name: 'Canary Name 2' }), 500, 'database_error');
	await database.sql`alter table personal_contacts drop constraint canary`;
	const log = app.log.join('\n');
	expect(log).toContain('23514');
	expect(log).not.toMatch(/canary-user|Canary Name|1911-11-11/);
});
