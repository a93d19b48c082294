import { createTestDatabase } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { contacts, expectOneLine, expectWrongUsage } from '../testing/command.js';

const run = (...args: string[]) => contacts(database.url, ['subscription', ...args]);
const stored = (chatId: string) => database.sql<{ active: boolean; open: boolean }[]>`
	select started_at <= now() and (ended_at is null or ended_at > now()) as active, ended_at is null as open
	from direct_subscriptions where chat_id = ${chatId}::bigint order by id`;
const utc = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);

describe('subscription start, end and list', () => {
	test.each(['5550001', '-1001234567890', '-1', '9007199254740991', '-9007199254740991'])(
		'of chat %s, one after the other',
		async (chatId) => {
			expect(await run('start', chatId)).toEqual({ code: 0, stdout: `Chat ${chatId} is subscribed.\n`, stderr: '' });
			expect(await stored(chatId)).toEqual([{ active: true, open: true }]);
			const active = await run('list', chatId, '--json');
			expect(JSON.parse(active.stdout)).toEqual([
				{ chat_id: Number(chatId), state: 'active', started_at: utc, ended_at: null },
			]);

			expect(await run('end', chatId)).toMatchObject({ code: 0, stderr: '' });
			expect(await stored(chatId)).toEqual([{ active: false, open: false }]);
			const ended = await run('list', chatId, '--json');
			expect(JSON.parse(ended.stdout)).toEqual([
				{ chat_id: Number(chatId), state: 'ended', started_at: utc, ended_at: utc },
			]);
		},
	);

	test('a chat can be subscribed anew, and both subscriptions are kept', async () => {
		await run('start', '71');
		await run('end', '71');
		await run('start', '71');
		expect(await stored('71')).toEqual([
			{ active: false, open: false },
			{ active: true, open: true },
		]);
		const states = JSON.parse((await run('list', '71', '--json')).stdout).map((row: { state: string }) => row.state);
		expect(states).toEqual(['active', 'ended']);
	});

	test('--json prints the state, of a negative chat too', async () => {
		expect(JSON.parse((await run('start', '--json', '-72')).stdout)).toEqual({ chat_id: -72, state: 'active' });
		expect(JSON.parse((await run('end', '-72', '--json')).stdout)).toEqual({ chat_id: -72, state: 'ended' });
	});

	test('start fails while one is active, the one that ends in the future too, and adds nothing', async () => {
		await run('start', '73');
		expectOneLine(await run('start', '73'), 1, 'Chat 73 has an active subscription already');
		expect(await stored('73')).toHaveLength(1);

		await database.sql`insert into direct_subscriptions (chat_id, ended_at) values (74, now() + interval '1 hour')`;
		expectOneLine(await run('start', '74'), 1, 'has an active subscription already');
		expect(await run('end', '74')).toMatchObject({ code: 0 });
		expect(await stored('74')).toEqual([{ active: false, open: false }]);
	});

	test('end fails where none is active', async () => {
		expectOneLine(await run('end', '75'), 1, 'Chat 75 has no active subscription');
		await run('start', '75');
		await run('end', '75');
		expectOneLine(await run('end', '75'), 1, 'has no active subscription');
	});

	test('two starts at once leave one subscription', async () => {
		const outcomes = await Promise.all([run('start', '76'), run('start', '76')]);
		expect(outcomes.map(({ code }) => code).sort()).toEqual([0, 1]);
		expect(await stored('76')).toHaveLength(1);
	});

	test('list without a chat shows the active ones of all chats, the newest first', async () => {
		const own = await createTestDatabase();
		try {
			await own.sql`
				insert into direct_subscriptions (chat_id, started_at, ended_at) values
					(1, now() - interval '2 hours', null),
					(2, now() - interval '1 hour', null),
					(3, now() - interval '3 hours', now() - interval '1 hour'),
					(4, now() + interval '1 hour', null)`;
			const outcome = await contacts(own.url, ['subscription', 'list', '--json']);
			expect(JSON.parse(outcome.stdout).map((row: { chat_id: number }) => row.chat_id)).toEqual([2, 1]);
			const table = await contacts(own.url, ['subscription', 'list']);
			expect(table.stdout.split('\n').map((line) => line.split(/ +/).slice(0, 2))).toEqual([
				['chat_id', 'state'],
				['2', 'active'],
				['1', 'active'],
				[''],
			]);
			const planned = await contacts(own.url, ['subscription', 'list', '4', '--json']);
			expect(JSON.parse(planned.stdout)).toMatchObject([{ chat_id: 4, state: 'planned' }]);
		} finally {
			await own.drop();
		}
	});
});

describe('a chat_id that is none is wrong usage, and changes nothing', () => {
	test.each([
		'0',
		'-0',
		'007',
		'1.5',
		'1e3',
		'abc',
		'',
		'9007199254740992',
		'-9007199254740992',
		'99999999999999999999',
	])('%j', async (chatId) => {
		for (const word of ['start', 'end', 'list']) {
			await expectWrongUsage(database.url, ['subscription', word, chatId], 'A chat_id is an integer other than 0');
		}
		const rows = await database.sql`select from direct_subscriptions where chat_id in (0, 7, 1000)`;
		expect(rows).toHaveLength(0);
	});

	test('exit 2, with one line', async () => {
		expectOneLine(await run('start', '0'), 2, 'A chat_id is an integer other than 0');
	});

	test.each(['-5x', '--5', '-'])('%j', async (chatId) => {
		const outcome = await run('start', chatId);
		expect(outcome).toMatchObject({ code: 2, stdout: '' });
		expect(outcome.stderr).toMatch(/^error: /);
	});
});
