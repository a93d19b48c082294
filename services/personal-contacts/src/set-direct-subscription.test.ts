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

const headers = { 'content-type': 'application/json' };
const post = (body: string, path = '/api/direct_subscriptions') =>
	app.fetch(`${path}?project=bot&api_key=bot-key`, { method: 'POST', body, headers });

/** Sends a report and expects that it is saved. */
async function report(chatId: number, active: boolean, at?: string): Promise<void> {
	const response = await post(JSON.stringify({ chat_id: chatId, active, at }));
	expect([response.status, await response.text()]).toEqual([200, '{"ok":"saved"}']);
}

/** The outcome of an upsert of the chat's user. */
async function upsert(chatId: number): Promise<string> {
	const contact = JSON.stringify({ chat_id: chatId, name: 'Ivan' });
	const response = await post(contact, '/api/personal_contacts');
	return ((await response.json()) as { ok: string }).ok;
}

/** The time this many hours ago. */
const ago = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString();

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

	test('a start removes a planned end and keeps the start, and an end comes before a planned one', async () => {
		for (const active of [true, false]) {
			const chat = nextChat++;
			const start = ago(2);
			await database.sql`
				insert into direct_subscriptions (chat_id, started_at, ended_at)
				values (${chat}, ${start}::text::timestamptz, '2999-01-01')`;
			expect(await upsert(chat)).toBe('skipped');
			await report(chat, active);
			if (active) expect(await stored(chat)).toEqual([{ started_at: start, ended_at: null }]);
			expect(await upsert(chat)).toBe(active ? 'skipped' : 'saved');
		}
	});

	test.each([
		[[], true],
		[[true], false],
		[[true, false], true],
		[[true, false, true, false, true], false],
	])('after %j and a clock that was set back by an hour, a report of %s counts at once', async (before, active) => {
		const chat = nextChat++;
		for (const each of before) await report(chat, each);
		await database.sql`
			update direct_subscriptions
			set started_at = started_at + interval '1 hour', ended_at = ended_at + interval '1 hour', reported_at = reported_at + interval '1 hour'
			where chat_id = ${chat}`;
		// What was acknowledged counts too.
		expect(await upsert(chat)).toBe(before.at(-1) ? 'skipped' : 'saved');
		for (const state of [active, !active]) {
			await report(chat, state);
			expect(await upsert(chat)).toBe(state ? 'skipped' : 'saved');
		}
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
	const counts = async () => [...(await database.sql`select count(*)::int from direct_subscriptions`)];

	const times = ['null', '1700000000', '"2026-05-17"', '"2026-05-17T12:00:00"', '"2026-05-17T12:00Z"', '""'];
	times.push(
		'"2026-02-29T12:00:00Z"',
		'"2026-05-17T24:00:00Z"',
		'"2026-05-17T12:00:61Z"',
		'"2026-05-17T12:00:00+24:00"',
		// .NET's default of a time, in Moscow.
		'"0001-01-01T00:00:00+03:00"',
		'"9999-12-31T23:59:59-01:00"',
	);
	test.each<[string, string[]]>([
		['{}', ['chat_id', 'active']],
		['{"chat_id":0.99999999999999999999,"active":true}', ['chat_id']],
		...['null', '0', '"true"'].map((active): [string, string[]] => [`{"chat_id":1,"active":${active}}`, ['active']]),
		...times.map((at): [string, string[]] => [`{"chat_id":1,"active":true,"at":${at}}`, ['at']]),
	])('%s', async (body, fields) => {
		const { errors } = await expectProblem(await post(body), 400, 'invalid_body');
		expect(errors?.map(({ field }) => field)).toEqual(fields);
	});

	test('at: a time in the future', async () => {
		const before = await counts();
		for (const at of [new Date(Date.now() + 5000).toISOString(), '9999-12-31T23:59:59Z']) {
			const response = await post(JSON.stringify({ chat_id: nextChat++, active: true, at }));
			const { errors } = await expectProblem(response, 400, 'invalid_body');
			expect(errors?.map(({ field }) => field)).toEqual(['at']);
		}
		expect(await counts()).toEqual(before);
	});
});
