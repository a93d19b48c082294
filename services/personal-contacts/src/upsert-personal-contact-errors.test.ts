import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';
import { service } from './app.js';

let app: TestApp;

test.beforeAll(async () => {
	await addProject(database.sql, 'first', 'first-key');
	app = await startTestApp(service, database.url);
});
afterAll(() => app?.close());

const post = (body: string | Buffer, headers: Record<string, string> = {}) =>
	app.fetch('/api/personal_contacts?project=first&api_key=first-key', {
		method: 'POST',
		body: typeof body === 'string' ? body : new Uint8Array(body),
		headers: { 'content-type': 'application/json', ...headers },
	});

describe('400', () => {
	const wrongField = async (body: string, field: string) => {
		const problem = await expectProblem(await post(body), 400, 'invalid_body');
		expect(problem.errors).toEqual([{ field, message: expect.stringMatching(/^[a-z].+/) }]);
	};
	const count = async () =>
		(await database.sql<{ count: number }[]>`select count(*)::int from personal_contacts`)[0]?.count;

	test.each([
		'{}',
		...[
			'null',
			'""',
			'0',
			'-0',
			'" "',
			'"12"',
			'true',
			'[1]',
			'{}',
			'1.5',
			'9007199254740992',
			'-9007199254740992',
			'1e400',
			...['0.99999999999999999999', '9007199254740991.4', '-9007199254740991.4', '1.00000000000000000001'],
			...['1e-400', '4503599627370496.25', '9007199254740991000000000000000001e-18', '5.0000000000000000001e0'],
		].map((value) => `{"chat_id":${value}}`),
	])('chat_id: %s', async (body) => {
		const before = await count();
		await wrongField(body, 'chat_id');
		expect(await count()).toBe(before);
	});

	test.each([
		['0', 'a number'],
		['true', 'a boolean'],
		['[]', 'a list'],
		['{}', 'an object'],
		[`"${'x'.repeat(256)}"`, '256 characters'],
		['"a\\u0000b"', 'U+0000'],
		['"\\ud800"', 'a lone high surrogate'],
		['"\\udc00 x"', 'a lone low surrogate'],
	])('username and name: %s (%s)', async (value) => {
		await wrongField(`{"chat_id":1,"username":${value}}`, 'username');
		await wrongField(`{"chat_id":1,"name":${value}}`, 'name');
	});

	test.each([
		'"2023-02-29"',
		'"1990-13-01"',
		'"1990-02-30"',
		'"1990-00-10"',
		'"1990-01-00"',
		'"0000-01-01"',
		'"1990-1-1"',
		'"19900101"',
		'"1990-01-01T00:00:00Z"',
		'" 1990-01-01"',
		'"+1990-01-01"',
		'"1990-01-01\\n"',
		'"infinity"',
		'""',
		'19900101',
		'false',
	])('birth_date: %s', async (value) => {
		await wrongField(`{"chat_id":1,"birth_date":${value}}`, 'birth_date');
	});

	test.each([
		...['"canary":1', '"user_name":"canary"', '"Name":"canary"', '"created_at":"1970-01-01"', '"canary":[{}]', '"":1'],
		...['"__proto__":{"name":"canary"}', '"constructor":1', '"toString":null', '"canary":1,"canary2":2'],
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

	test('an unknown field and an invalid one: both are reported', async () => {
		const { errors } = await expectProblem(await post('{"chat_id":0,"x":1}'), 400, 'invalid_body');
		expect(errors?.map(({ field }) => field).sort()).toEqual(['body', 'chat_id']);
	});

	test('names every invalid field', async () => {
		const problem = await expectProblem(
			await post('{"chat_id":null,"username":1,"birth_date":"x"}'),
			400,
			'invalid_body',
		);
		expect(problem.errors?.map(({ field }) => field)).toEqual(['chat_id', 'username', 'birth_date']);
	});

	test.each(['[]', 'null', '1', '"x"', 'true'])('a body that is not an object: %s', async (body) => {
		await expectProblem(await post(body), 400, 'invalid_body');
	});

	test.each([
		'',
		' ',
		'{',
		'{"chat_id":1',
		"{'chat_id':1}",
		'{"chat_id":1,}',
		'{"chat_id":01}',
		'{"chat_id":NaN}',
		'{"chat_id":1}}',
		'chat_id=1',
	])('malformed JSON: %j', async (body) => {
		await expectProblem(await post(body), 400, 'invalid_json');
	});

	test('no body at all', async () => {
		const response = await app.fetch('/api/personal_contacts?project=first&api_key=first-key', { method: 'POST' });
		await expectProblem(response, 400, 'invalid_body');
	});

	test.each([
		['a stray byte', [0xff]],
		['a cut-off sequence', [0xd0]],
		['an overlong form', [0xc0, 0xaf]],
		['a surrogate', [0xed, 0xa0, 0x80]],
	])('bytes that are not UTF-8: %s', async (_, bytes) => {
		const body = Buffer.concat([Buffer.from('{"chat_id":1,"name":"'), Buffer.from(bytes), Buffer.from('"}')]);
		await expectProblem(await post(body), 400, 'invalid_json');
	});

	test('never echoes the request', async () => {
		const text = await (
			await post('{"chat_id":"canary-1","name":["canary-2"],"canary-3":1,"canary-4":"canary-5"}')
		).text();
		expect(text).not.toContain('canary');
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
		const body = `{"chat_id":1}`.padEnd(16_385);
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
	test.each([
		'text/plain',
		'application/x-www-form-urlencoded',
		'multipart/form-data; boundary=x',
		'application/jsonp',
		'text/json',
		'nonsense',
		'*/*',
	])('%s', async (type) => {
		await expectProblem(await post('{"chat_id":1}', { 'content-type': type }), 415, 'unsupported_media_type');
	});

	test('a body without a media type', async () => {
		const response = await app.raw(
			'POST /api/personal_contacts?project=first&api_key=first-key HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 13\r\n\r\n{"chat_id":1}',
		);
		expect(response).toMatch(/^HTTP\/1.1 415 /);
	});

	test.each(['gzip', 'br', 'deflate'])('a body in %s', async (encoding) => {
		const response = await post('{"chat_id":1}', { 'content-encoding': encoding });
		await expectProblem(response, 415, 'unsupported_media_type');
	});
});
