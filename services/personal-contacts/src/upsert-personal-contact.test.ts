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

	test.each([Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER])('accepts the chat_id %d', async (chatId) => {
		expect((await save({ chat_id: chatId, name: 'edge' })).status).toBe(200);
		expect(await stored(chatId)).toMatchObject({ name: 'edge' });
	});

	test.each([
		['1e3', 1000],
		['-2.50E+1', -25],
		['9007199254740991.000', Number.MAX_SAFE_INTEGER],
	])('accepts the chat_id %s, an integer in another notation', async (written, chatId) => {
		expect((await post(`{"chat_id":${written},"name":${JSON.stringify(written)}}`)).status).toBe(200);
		expect(await stored(chatId)).toMatchObject({ name: written });
	});

	test.each(['0001-01-01', '1899-12-31', '9999-12-31'])('does not shift the date %s', async (date) => {
		const chatId = nextChat++;
		expect((await save({ chat_id: chatId, birth_date: date })).status).toBe(200);
		expect((await stored(chatId))?.birth_date).toBe(date);
	});

	test('accepts a media type with parameters and in capitals, and a byte order mark', async () => {
		const body = JSON.stringify({ chat_id: nextChat++ });
		expect((await post(body, { headers: { 'content-type': 'Application/JSON; charset=utf-8' } })).status).toBe(200);
		expect((await post(`\uFEFF${body}`)).status).toBe(200);
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

describe('400', () => {
	const wrongField = async (body: string, field: string) => {
		const problem = await expectProblem(await post(body), 400, 'invalid_body');
		expect(problem.errors).toEqual([{ field, message: expect.stringMatching(/^[a-z].+/) }]);
	};
	const count = async () =>
		(await database.sql<{ count: number }[]>`select count(*)::int from personal_contacts`)[0]?.count;

	test.each([
		'null',
		'""',
		'0',
		'-0',
		'"12"',
		'true',
		'[1]',
		'1.5',
		'9007199254740992',
		'0.99999999999999999999',
		'1e400',
	])('chat_id: %s', async (value) => {
		const before = await count();
		await wrongField(`{"chat_id":${value}}`, 'chat_id');
		expect(await count()).toBe(before);
	});

	test.each([
		['0', 'a number'],
		[`"${'x'.repeat(256)}"`, '256 characters'],
		['"a\\u0000b"', 'U+0000'],
		['"\\ud800"', 'a lone surrogate'],
	])('username and name: %s (%s)', async (value) => {
		await wrongField(`{"chat_id":1,"username":${value}}`, 'username');
		await wrongField(`{"chat_id":1,"name":${value}}`, 'name');
	});

	test.each([
		'"2023-02-29"',
		'"1990-13-01"',
		'"0000-01-01"',
		'"1990-1-1"',
		'"1990-01-01T00:00:00Z"',
		'"infinity"',
		'""',
		'19900101',
	])('birth_date: %s', async (value) => {
		await wrongField(`{"chat_id":1,"birth_date":${value}}`, 'birth_date');
	});

	test.each([
		...[
			'"user_name":"canary"',
			'"Name":"canary"',
			'"created_at":"1970-01-01"',
			'"":1',
			'"__proto__":{"name":"canary"}',
		],
	])('an unknown field, whose name is not echoed: %s', async (field) => {
		for (const body of [`{"chat_id":1,${field}}`, `{${field},"chat_id":1}`]) {
			const before = await count();
			const response = await post(body);
			expect(await response.clone().text()).not.toMatch(/canary|user_name|created_at|proto|constructor|toString/);
			const { errors } = await expectProblem(response, 400, 'invalid_body');
			const message = 'must hold no fields but chat_id, username, name, birth_date';
			expect(errors).toEqual([{ field: 'body', message }]);
			expect(await count()).toBe(before);
		}
	});

	test('names every invalid field', async () => {
		const problem = await expectProblem(
			await post('{"chat_id":null,"username":1,"birth_date":"x"}'),
			400,
			'invalid_body',
		);
		expect(problem.errors?.map(({ field }) => field)).toEqual(['chat_id', 'username', 'birth_date']);
	});

	test.each(['[]', 'null', '"x"'])('a body that is not an object: %s', async (body) => {
		await expectProblem(await post(body), 400, 'invalid_body');
	});

	test.each(['', '{', '{"chat_id":1,}', '{"chat_id":NaN}', 'chat_id=1'])('malformed JSON: %j', async (body) => {
		await expectProblem(await post(body), 400, 'invalid_json');
	});

	test('no body at all', async () => {
		const response = await app.fetch('/api/personal_contacts?project=first&api_key=first-key', { method: 'POST' });
		await expectProblem(response, 400, 'invalid_body');
	});

	test('bytes that are not UTF-8', async () => {
		const body = Buffer.concat([Buffer.from('{"chat_id":1,"name":"'), Buffer.from([0xd0]), Buffer.from('"}')]);
		await expectProblem(await post(body), 400, 'invalid_json');
	});

	test('a body that is longer than its Content-Length is cut off there and refused', async () => {
		const head =
			'POST /api/personal_contacts?project=first&api_key=first-key HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n';
		const response = await app.raw(`${head}Content-Length: 13\r\nConnection: close\r\n\r\n{"chat_id": 9}trailing`);
		expect(response).toMatch(/^HTTP\/1.1 400 /);
	});
});

describe('413', () => {
	test('a body of more than 16 KiB, announced or chunked', async () => {
		expect((await post('{"chat_id":1}'.padEnd(16_384))).status).toBe(200);
		const body = '{"chat_id":1}'.padEnd(16_385);
		await expectProblem(await post(body), 413, 'payload_too_large');
		const head =
			'POST /api/personal_contacts?project=first&api_key=first-key HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n';
		const chunk = `4001\r\n${body}\r\n0\r\n\r\n`;
		const response = await app.raw(`${head}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n${chunk}`);
		expect(response).toMatch(/^HTTP\/1.1 413 /);
		expect(response).toContain('"code":"payload_too_large"');
	});
});

describe('415', () => {
	test.each(['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', '*/*'])('%s', async (type) => {
		await expectProblem(
			await post('{"chat_id":1}', { headers: { 'content-type': type } }),
			415,
			'unsupported_media_type',
		);
	});

	test('a body without a media type', async () => {
		const response = await app.raw(
			'POST /api/personal_contacts?project=first&api_key=first-key HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 13\r\n\r\n{"chat_id":1}',
		);
		expect(response).toMatch(/^HTTP\/1.1 415 /);
	});

	test('a compressed body', async () => {
		const response = await post('{"chat_id":1}', {
			headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
		});
		await expectProblem(response, 415, 'unsupported_media_type');
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
