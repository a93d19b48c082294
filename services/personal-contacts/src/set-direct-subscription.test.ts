import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';
import { service } from './app.js';

let app: TestApp;
let nextChat = 1;

test.beforeAll(async () => {
	await addProject(database.sql, 'bot', 'bot-key');
	// No test is about the deadline, which a busy machine may miss.
	app = await startTestApp(service, database.url, { database: { deadlineMs: 60_000 } });
});
afterAll(() => app?.close());

const post = (body: string, type = 'application/json', path = '/api/direct_subscriptions') =>
	app.fetch(`${path}?project=bot&api_key=bot-key`, { method: 'POST', body, headers: { 'content-type': type } });

/** Sends a report and expects that it is saved. */
async function report(chatId: number, active: boolean, at?: string): Promise<void> {
	const response = await post(JSON.stringify({ chat_id: chatId, active, at }));
	expect([response.status, await response.text()]).toEqual([200, '{"ok":"saved"}']);
}

/** The outcome of an upsert of the chat's user. */
async function upsert(chatId: number): Promise<string> {
	const contact = JSON.stringify({ chat_id: chatId, name: 'Ivan' });
	const response = await post(contact, undefined, '/api/personal_contacts');
	return ((await response.json()) as { ok: string }).ok;
}

/** The time this many hours ago. */
const ago = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString();

const subscribe = (chatId: number, from: string, to: string | null) => database.sql`
	insert into direct_subscriptions (chat_id, started_at, ended_at)
	values (${chatId}, ${from}::text::timestamptz, ${to}::text::timestamptz)`;

/** The subscription of a chat, unless only its end was reported. */
const stored = (chatId: number) => database.sql<{ started_at: string; ended_at: string | null }[]>`
	select to_char(started_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as started_at,
	       to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ended_at
	from direct_subscriptions where chat_id = ${chatId} and direct_subscriptions.started_at is not null`;

describe('200', () => {
	test('an upsert sent after the response is skipped from the start on, and saved again from the end on', async () => {
		const chat = nextChat++;
		expect(await upsert(chat)).toBe('saved');
		await report(chat, true);
		expect(await upsert(chat)).toBe('skipped');
		await report(chat, false);
		expect(await upsert(chat)).toBe('saved');
		await report(chat, true);
		expect(await upsert(chat)).toBe('skipped');
	});

	test('a repeated report changes nothing', async () => {
		const chat = nextChat++;
		await report(chat, false);
		expect(await stored(chat)).toEqual([]);
		await report(chat, true, ago(2));
		const started = [...(await stored(chat))];
		for (const at of [undefined, ago(3), ago(1)]) await report(chat, true, at);
		expect(await stored(chat)).toEqual(started);
		await report(chat, false, ago(1));
		const ended = [...(await stored(chat))];
		for (const at of [undefined, ago(3), ago(0.5)]) await report(chat, false, at);
		expect(await stored(chat)).toEqual(ended);
	});

	test('the reported time is stored, whatever its offset', async () => {
		const chat = nextChat++;
		await report(chat, true, '2026-05-17t14:00:00.1239+02:00');
		await report(chat, false, '2026-05-17T12:59:60Z');
		expect(await stored(chat)).toEqual([
			{ started_at: '2026-05-17T12:00:00.123Z', ended_at: '2026-05-17T13:00:00.000Z' },
		]);
	});

	test('a report without a time takes effect now', async () => {
		const chat = nextChat++;
		const [before] = await database.sql<{ now: string }[]>`select clock_timestamp()::text as now`;
		await report(chat, true);
		const rows = await database.sql`
			select from direct_subscriptions where chat_id = ${chat}
			  and started_at between ${before?.now ?? ''}::text::timestamptz and clock_timestamp()`;
		expect(rows).toHaveLength(1);
	});

	test('a clock that is ahead by less than a second is not refused, and the subscription is active at once', async () => {
		const chat = nextChat++;
		await report(chat, true, new Date(Date.now() + 900).toISOString());
		expect(await upsert(chat)).toBe('skipped');
		await report(chat, false, new Date(Date.now() + 900).toISOString());
		expect(await upsert(chat)).toBe('saved');
	});

	test('the last report counts: an end before the start ends the subscription, an earlier start begins it again', async () => {
		const chat = nextChat++;
		const [first, second, third] = [ago(1), ago(2), ago(3)];
		await report(chat, true, first);
		await report(chat, false, second);
		expect(await stored(chat)).toEqual([{ started_at: first, ended_at: first }]);
		expect(await upsert(chat)).toBe('saved');
		await report(chat, true, third);
		expect(await stored(chat)).toEqual([{ started_at: third, ended_at: null }]);
		expect(await upsert(chat)).toBe('skipped');
	});

	test('a start on an active subscription removes its planned end and keeps its start', async () => {
		const chat = nextChat++;
		const start = ago(2);
		await subscribe(chat, start, '2999-01-01T00:00:00Z');
		await report(chat, true);
		expect(await stored(chat)).toEqual([{ started_at: start, ended_at: null }]);
	});

	test('an end ends a subscription with a planned end now', async () => {
		const chat = nextChat++;
		await subscribe(chat, ago(2), '2999-01-01T00:00:00Z');
		expect(await upsert(chat)).toBe('skipped');
		await report(chat, false);
		expect(await upsert(chat)).toBe('saved');
	});

	test('a subscription has ended right after its acknowledgement, although the clock was set back by an hour', async () => {
		const chat = nextChat++;
		await report(chat, true);
		await report(chat, false);
		await setClockBack(chat);
		expect(await upsert(chat)).toBe('saved');
	});

	/** As if the clock of the server had been set back by an hour. */
	const setClockBack = (chat: number) =>
		database.sql`
			update direct_subscriptions
			set started_at = started_at + interval '1 hour', ended_at = ended_at + interval '1 hour', reported_at = reported_at + interval '1 hour'
			where chat_id = ${chat}`;

	test.each([
		['one that began', [true], false],
		['one that ended', [true, false], true],
		['the last of several', [true, false, true, false, true], false],
	])('after the clock was set back, with %s (%j), a report of %s counts at once', async (_, before, active) => {
		const chat = nextChat++;
		for (const each of before) await report(chat, each);
		await setClockBack(chat);
		await report(chat, active);
		expect(await upsert(chat)).toBe(active ? 'skipped' : 'saved');
		await report(chat, !active);
		expect(await upsert(chat)).toBe(active ? 'saved' : 'skipped');
		expect((await stored(chat)).filter(({ ended_at }) => ended_at === null)).toHaveLength(active ? 0 : 1);
	});

	/** Sends reports over one connection without waiting for responses, so that they arrive in this order. */
	async function pipeline(chatId: number, states: boolean[]): Promise<number[]> {
		const requests = states.map((active, index) => {
			const body = JSON.stringify({ chat_id: chatId, active });
			const connection = index === states.length - 1 ? 'Connection: close\r\n' : '';
			return `POST /api/direct_subscriptions?project=bot&api_key=bot-key HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n${connection}Content-Length: ${body.length}\r\n\r\n${body}`;
		});
		const responses = await app.raw(requests.join(''));
		return [...responses.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status));
	}

	test('reports on one chat are applied in the order of arrival, and wait for no other chat', async () => {
		const [chat, other] = [nextChat++, nextChat++];
		const lock = await database.sql.reserve();
		await report(chat, true);
		await lock`begin`;
		await lock`select from direct_subscriptions where chat_id = ${chat} for update`;
		const statuses = pipeline(chat, [false, true, false, true, false, true, false]);
		const blocked = () => database.sql`
			select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
		await expect.poll(blocked).toHaveLength(1);
		await report(other, true);
		expect(await upsert(other)).toBe('skipped');
		await lock`commit`;
		lock.release();
		expect(await statuses).toEqual(Array(7).fill(200));
		expect(await upsert(chat)).toBe('saved');
		expect((await stored(chat)).filter(({ ended_at }) => ended_at === null)).toEqual([]);
	});
});

describe('400', () => {
	const wrong = async (body: string, ...fields: string[]) => {
		const { errors } = await expectProblem(await post(body), 400, 'invalid_body');
		expect(errors?.map(({ field }) => field)).toEqual(fields);
		expect(JSON.stringify(errors)).not.toContain('canary');
	};
	const counts = async () => [...(await database.sql`select count(*)::int from direct_subscriptions`)];

	test.each(['null', '0', '"12"', '0.99999999999999999999'])('chat_id: %s', async (value) => {
		const before = await counts();
		await wrong(`{"chat_id":${value},"active":true}`, 'chat_id');
		expect(await counts()).toEqual(before);
	});

	test.each(['null', '0', '"true"', '"canary"'])('active: %s', async (value) => {
		await wrong(`{"chat_id":1,"active":${value}}`, 'active');
	});

	test('a body without the required fields', async () => {
		await wrong('{}', 'chat_id', 'active');
		await wrong('{"chat_id":1}', 'active');
	});

	test.each([
		...[
			'null',
			'""',
			'1700000000',
			'"2026-05-17"',
			'"2026-05-17T12:00:00"',
			'"2026-05-17 12:00:00Z"',
			'"2026-05-17T12:00Z"',
		],
		...[
			'"2026-02-29T12:00:00Z"',
			'"2026-05-17T24:00:00Z"',
			'"2026-05-17T12:00:61Z"',
			'"2026-05-17T12:00:00+24:00"',
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

	test.each(['"started_at":"2026-05-17T12:00:00Z"', '"Active":true'])('an unknown field: %s', async (field) => {
		const response = await post(`{"chat_id":1,"active":true,${field}}`);
		const { errors } = await expectProblem(response, 400, 'invalid_body');
		expect(errors).toEqual([{ field: 'body', message: 'must hold no fields but chat_id, active, at' }]);
	});
});

test('413, 415: as for upserts', async () => {
	const body = JSON.stringify({ chat_id: nextChat++, active: true });
	expect((await post(body.padEnd(16_384))).status).toBe(200);
	await expectProblem(await post(body.padEnd(16_385)), 413, 'payload_too_large');
	await expectProblem(await post(body, 'text/plain'), 415, 'unsupported_media_type');
});
