import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';
import { service } from './app.js';

let app: TestApp;
let nextChat = 1;

test.beforeAll(async () => {
	await addProject(database.sql, 'bot', 'bot-key');
	app = await startTestApp(service, database.url);
});
afterAll(() => app?.close());

const post = (body: string | Buffer, headers: Record<string, string> = {}) =>
	app.fetch('/api/direct_subscriptions?project=bot&api_key=bot-key', {
		method: 'POST',
		body: typeof body === 'string' ? body : new Uint8Array(body),
		headers: { 'content-type': 'application/json', ...headers },
	});

describe('400', () => {
	const wrong = async (body: string, ...fields: string[]) => {
		const { errors } = await expectProblem(await post(body), 400, 'invalid_body');
		expect(errors?.map(({ field }) => field)).toEqual(fields);
		expect(JSON.stringify(errors)).not.toContain('canary');
	};
	const counts = async () => [...(await database.sql`select count(*)::int from direct_subscriptions`)];

	test.each(['null', '0', '"12"', '1.5', '9007199254740992', '0.99999999999999999999', 'true', '[1]'])(
		'chat_id: %s',
		async (value) => {
			const before = await counts();
			await wrong(`{"chat_id":${value},"active":true}`, 'chat_id');
			expect(await counts()).toEqual(before);
		},
	);

	test.each(['null', '0', '1', '"true"', '"canary"', '[]', '{}'])('active: %s', async (value) => {
		await wrong(`{"chat_id":1,"active":${value}}`, 'active');
	});

	test('a body without the required fields', async () => {
		await wrong('{}', 'chat_id', 'active');
		await wrong('{"chat_id":1}', 'active');
	});

	test.each([
		...['null', '""', '1700000000', 'true', '[]'],
		...['"2026-05-17"', '"2026-05-17T12:00:00"', '"2026-05-17 12:00:00Z"', '"2026-05-17T12:00Z"', '"20260517T120000Z"'],
		...['"2026-02-29T12:00:00Z"', '"2026-13-01T12:00:00Z"', '"0000-01-01T00:00:00Z"', '"2026-05-17T24:00:00Z"'],
		...[
			'"2026-05-17T12:60:00Z"',
			'"2026-05-17T12:00:61Z"',
			'"2026-05-17T12:00:00+24:00"',
			'"2026-05-17T12:00:00+0200"',
		],
		...[
			'"2026-05-17T12:00:00Z\\u0000"',
			'"2026-05-17T12:00:00Z\\ud800"',
			'" 2026-05-17T12:00:00Z"',
			'"now"',
			'"canary"',
		],
	])('at: %s', async (value) => {
		await wrong(`{"chat_id":1,"active":true,"at":${value}}`, 'at');
	});

	test('at: a time in the future', async () => {
		const before = await counts();
		for (const at of [new Date(Date.now() + 5000).toISOString(), '9999-12-31T23:59:59Z']) {
			const response = await post(JSON.stringify({ chat_id: nextChat++, active: true, at }));
			const { errors } = await expectProblem(response, 400, 'invalid_body');
			expect(errors).toEqual([{ field: 'at', message: 'must not be in the future' }]);
		}
		expect(await counts()).toEqual(before);
	});

	test.each(['"canary":1', '"started_at":"2026-05-17T12:00:00Z"', '"__proto__":{}', '"Active":true'])(
		'an unknown field: %s',
		async (field) => {
			const response = await post(`{"chat_id":1,"active":true,${field}}`);
			const { errors } = await expectProblem(response, 400, 'invalid_body');
			expect(errors).toEqual([{ field: 'body', message: 'must hold no fields but chat_id, active, at' }]);
		},
	);

	test.each(['', '{', '{"chat_id":1,"active":true,}', '{"chat_id":1,"active":True}'])(
		'malformed JSON: %j',
		async (body) => {
			await expectProblem(await post(body), 400, 'invalid_json');
		},
	);

	test('bytes that are not UTF-8', async () => {
		const body = Buffer.concat([
			Buffer.from('{"chat_id":1,"active":true,"at":"'),
			Buffer.from([0xff]),
			Buffer.from('"}'),
		]);
		await expectProblem(await post(body), 400, 'invalid_json');
	});
});

describe('405, 413, 415', () => {
	test.each(['GET', 'PUT', 'DELETE', 'OPTIONS'])('%s, with credentials or without', async (method) => {
		for (const query of ['', '?project=bot&api_key=bot-key']) {
			const response = await app.fetch(`/api/direct_subscriptions${query}`, { method });
			expect(response.headers.get('allow')).toBe('POST');
			await expectProblem(response, 405, 'method_not_allowed');
		}
	});

	test('a body of 16 KiB is accepted, a larger one is refused', async () => {
		const body = JSON.stringify({ chat_id: nextChat++, active: true });
		expect((await post(body.padEnd(16_384))).status).toBe(200);
		await expectProblem(await post(body.padEnd(16_385)), 413, 'payload_too_large');
	});

	test.each([{ 'content-type': 'text/plain' }, { 'content-encoding': 'gzip' }])('a body with %j', async (headers) => {
		await expectProblem(await post('{"chat_id":1,"active":true}', headers), 415, 'unsupported_media_type');
	});
});
