import { urlAs } from '@contacts/common/database/roles.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { contacts, expectOneLine, expectWrongUsage } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

const run = (...args: string[]) => contacts(database.url, ['subscription', ...args]);
const stored = (chatId: string) => database.sql<{ active: boolean; open: boolean }[]>`
	select ended_at is null or ended_at > now() as active, ended_at is null as open
	from direct_subscriptions where chat_id = ${chatId}::bigint`;
const utc = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

describe('subscription start, end and list', () => {
	test.each(['5550001', '-9007199254740991'])('of chat %s, one after the other', async (chatId) => {
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
	});

	test('a chat can be subscribed again, and only the newest subscription is kept', async () => {
		await run('start', '71', '--from', '2026-01-01');
		await run('end', '71', '--at', '2026-02-01');
		await run('start', '71', '--from', '2026-03-01');
		expect(await stored('71')).toEqual([{ active: true, open: true }]);
		const rows = JSON.parse((await run('list', '71', '--json')).stdout);
		expect(rows).toMatchObject([{ state: 'active', started_at: '2026-03-01T00:00:00.000Z' }]);
	});

	test('--json prints the state, also of a negative chat', async () => {
		expect(JSON.parse((await run('start', '--json', '-72')).stdout)).toEqual({ chat_id: -72, state: 'active' });
		expect(JSON.parse((await run('end', '-72', '--json')).stdout)).toEqual({ chat_id: -72, state: 'ended' });
	});

	test('start fails and adds nothing while a subscription is active, even one that ends in the future', async () => {
		await run('start', '73');
		expectOneLine(await run('start', '73'), 1, 'Chat 73 has an active subscription already');
		expect(await stored('73')).toHaveLength(1);

		await database.sql`insert into direct_subscriptions (chat_id, ended_at) values (74, now() + interval '1 hour')`;
		expectOneLine(await run('start', '74'), 1, 'has an active subscription already');
		expect(await run('end', '74')).toMatchObject({ code: 0 });
		expect(await stored('74')).toEqual([{ active: false, open: false }]);
	});

	test('end fails when no subscription is active', async () => {
		expectOneLine(await run('end', '75'), 1, 'Chat 75 has no active subscription');
		await run('start', '75');
		await run('end', '75');
		expectOneLine(await run('end', '75'), 1, 'has no active subscription');
	});

	test('two concurrent starts leave one subscription', async () => {
		const outcomes = await Promise.all([run('start', '76'), run('start', '76')]);
		expect(outcomes.map(({ code }) => code).sort()).toEqual([0, 1]);
		expect(await stored('76')).toHaveLength(1);
	});

	test('list without a chat shows the active subscriptions of all chats, newest first', async () => {
		const own = await ownDatabase();
		await own.sql`
			insert into direct_subscriptions (chat_id, started_at, ended_at) values
				(1, now() - interval '2 hours', null),
				(2, now() - interval '1 hour', null),
				(3, now() - interval '3 hours', now() - interval '1 hour'),
				(4, now() - interval '3 hours', now() + interval '1 hour')`;
		const outcome = await contacts(own.url, ['subscription', 'list', '--json']);
		expect(JSON.parse(outcome.stdout).map((row: { chat_id: number }) => row.chat_id)).toEqual([2, 1, 4]);
		const table = await contacts(own.url, ['subscription', 'list']);
		expect(table.stdout.split('\n').map((line) => line.split(/ +/).slice(0, 2))).toEqual([
			['chat_id', 'state'],
			['2', 'active'],
			['1', 'active'],
			['4', 'active'],
			[''],
		]);
		const ended = await contacts(own.url, ['subscription', 'list', '3', '--json']);
		expect(JSON.parse(ended.stdout)).toMatchObject([{ chat_id: 3, state: 'ended' }]);
	});
});

describe('planned times', () => {
	const rows = async (chatId: number) =>
		JSON.parse((await run('list', String(chatId), '--json')).stdout) as {
			state: string;
			started_at: string;
			ended_at: string;
		}[];

	test('start --from and --until, end --at', async () => {
		const begun = await run('start', '80', '--from', '2026-01-01', '--until', '2999-02-01T00:00:00+01:00', '--json');
		expect(JSON.parse(begun.stdout)).toEqual({ chat_id: 80, state: 'active' });
		expect(await rows(80)).toEqual([
			{ chat_id: 80, state: 'active', started_at: '2026-01-01T00:00:00.000Z', ended_at: '2999-01-31T23:00:00.000Z' },
		]);
		await run('start', '81', '--from', '2026-01-01');
		const end = await run('end', '81', '--at', '2999-01-01');
		expect(end).toEqual({
			code: 0,
			stdout: 'The subscription of chat 81 ends at 2999-01-01T00:00:00.000Z.\n',
			stderr: '',
		});
		expect(await rows(81)).toMatchObject([{ state: 'active', ended_at: '2999-01-01T00:00:00.000Z' }]);
		expect(await run('end', '81', '--at', '2026-02-01')).toMatchObject({ code: 0 });
		expect(await rows(81)).toMatchObject([
			{ state: 'ended', started_at: '2026-01-01T00:00:00.000Z', ended_at: '2026-02-01T00:00:00.000Z' },
		]);
	});

	test('an end before the start ends the subscription at its start', async () => {
		await run('start', '82', '--from', '2026-03-01');
		expect(await run('end', '82', '--at', '2026-02-01')).toMatchObject({ code: 0 });
		expect(await rows(82)).toMatchObject([
			{ state: 'ended', started_at: '2026-03-01T00:00:00.000Z', ended_at: '2026-03-01T00:00:00.000Z' },
		]);
	});

	test.each([
		[['start', '83', '--from', 'tomorrow'], '--from takes a date'],
		[['start', '83', '--until', '2026-02-30'], '--until takes a date'],
		[['start', '83', '--until', '2026-01-01'], '--until must be in the future'],
		[['start', '83', '--from', '2999-01-01'], '--from must not be in the future'],
		[['end', '83', '--at', ''], '--at takes a date'],
		[['list', '--limit', '0'], '--limit takes a positive integer'],
	])('%j is wrong usage', async (args, line) => {
		await expectWrongUsage(database.url, ['subscription', ...args], line);
		expect(await rows(83)).toEqual([]);
	});

	test('the audit log records starts and ends by hand, without the chat', async () => {
		const actions = await database.sql`
			select action, actor, details::text from audit_log where action like 'subscription %' and details::text like '%2999%'`;
		expect(actions.map(({ action }) => action)).toEqual(
			expect.arrayContaining(['subscription started', 'subscription ended']),
		);
		expect(JSON.stringify(actions)).not.toMatch(/\b8[0-2]\b/);
	});
});

describe('an invalid chat_id is wrong usage and changes nothing', () => {
	test.each(['0', '-0', '007', '1.5', '1e3', 'abc', '', '9007199254740992'])('%j', async (chatId) => {
		for (const word of ['start', 'end', 'list']) {
			await expectWrongUsage(database.url, ['subscription', word, chatId], 'A chat_id is an integer other than 0');
		}
		const rows = await database.sql`select from direct_subscriptions where chat_id in (0, 7, 1000)`;
		expect(rows).toHaveLength(0);
	});

	test.each(['-5x', '--5', '-'])('%j', async (chatId) => {
		const outcome = await run('start', chatId);
		expect(outcome).toMatchObject({ code: 2, stdout: '' });
		expect(outcome.stderr).toMatch(/^error: /);
	});
});

test('a command as a role that may not change subscriptions names those that may', async () => {
	const outcome = await contacts(urlAs(database.url, 'privacy', rolePassword), ['subscription', 'end', '1']);
	expectOneLine(outcome, 1, 'The database user may not do this: connect as the operator or as the owner.');
});
