import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { contacts, expectOneLine } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

const run = (...args: string[]) => contacts(database.url, ['subscription', ...args]);
const list = async (chatId: string) => JSON.parse((await run('list', '--json', '--', chatId)).stdout);
const utc = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const day = (date: string) => `${date}T00:00:00.000Z`;

test.each(['5550001', '-9007199254740991'])(
	'start, end and start again of chat %s: one subscription is kept',
	async (chatId) => {
		const chat_id = Number(chatId);
		expect(await run('start', chatId)).toEqual({ code: 0, stdout: `Chat ${chatId} is subscribed.\n`, stderr: '' });
		expect(await list(chatId)).toEqual([{ chat_id, state: 'active', started_at: utc, ended_at: null }]);
		expectOneLine(await run('start', chatId), 1, 'has an active subscription already');

		expect(await run('end', chatId)).toMatchObject({ code: 0, stderr: '' });
		expect(await list(chatId)).toEqual([{ chat_id, state: 'ended', started_at: utc, ended_at: utc }]);
		expectOneLine(await run('end', chatId), 1, 'has no active subscription');

		expect(await run('start', chatId, '--from', '2026-03-01')).toMatchObject({ code: 0 });
		expect(await list(chatId)).toEqual([{ chat_id, state: 'active', started_at: day('2026-03-01'), ended_at: null }]);
	},
);

test.each(['1970-01-01', '2040-01-01'])(
	'times are compared with the clock of the database, on a machine in %s',
	async (now) => {
		vi.useFakeTimers({ toFake: ['Date'], now: new Date(now) });
		onTestFinished(() => void vi.useRealTimers());
		expectOneLine(await run('start', '83', '--from', '2999-01-01'), 2, '--from must not be in the future');
		expectOneLine(await run('start', '83', '--until', '2026-01-01'), 2, '--until must be in the future');
		expect(await run('start', '83', '--from', '2026-01-01', '--until', '2999-01-01')).toMatchObject({ code: 0 });
		const ended = await run('end', '83', '--at', '2097-01-01');
		expect(ended.stdout).toBe('The subscription of chat 83 ends at 2097-01-01T00:00:00.000Z.\n');
		expect(await run('end', '83')).toMatchObject({ code: 0 });
		const line = JSON.stringify({ chat_id: 83, started_at: '2026-02-01' });
		expect(
			await contacts(database.url, ['subscription', 'import', '-', '--format', 'ndjson'], { input: line }),
		).toMatchObject({ code: 0 });
	},
);

test('two concurrent starts leave one subscription', async () => {
	const outcomes = await Promise.all([run('start', '76'), run('start', '76')]);
	expect(outcomes.map(({ code }) => code).sort()).toEqual([0, 1]);
	expect(await list('76')).toHaveLength(1);
});

test('list without a chat shows the active subscriptions of all chats, newest first', async () => {
	const own = await ownDatabase();
	await own.sql`
		insert into direct_subscriptions (chat_id, started_at, ended_at) values
			(1, now() - interval '2 hours', null),
			(2, now() - interval '1 hour', null),
			(3, now() - interval '3 hours', now() - interval '1 hour'),
			(4, now() - interval '3 hours', now() + interval '1 hour')`;
	const { stdout } = await contacts(own.url, ['subscription', 'list', '--json']);
	expect(JSON.parse(stdout)).toMatchObject([{ chat_id: 2 }, { chat_id: 1 }, { chat_id: 4, state: 'active' }]);
});

describe('times', () => {
	test('are planned, and an end that was planned can be moved', async () => {
		const [from, until] = ['2026-01-01', '2999-01-01'];
		await run('start', '81', '--from', from, '--until', until);
		const planned = [{ chat_id: 81, state: 'active', started_at: day(from), ended_at: day(until) }];
		expect(await list('81')).toEqual(planned);
		expectOneLine(await run('start', '81'), 1, 'has an active subscription already');
		const { stdout } = await run('end', '81', '--at', '2999-02-01');
		expect(stdout).toBe(`The subscription of chat 81 ends at ${day('2999-02-01')}.\n`);
		expect(await run('end', '81', '--at', '2026-02-01')).toMatchObject({ code: 0 });
		expect(await list('81')).toEqual([
			{ chat_id: 81, state: 'ended', started_at: day(from), ended_at: day('2026-02-01') },
		]);
	});

	test('never end a subscription before its start', async () => {
		await run('start', '82', '--from', '2026-03-01');
		expect(await run('end', '82', '--at', '2026-02-01')).toMatchObject({ code: 0 });
		expect(await list('82')).toMatchObject([{ started_at: day('2026-03-01'), ended_at: day('2026-03-01') }]);
	});
});

test('the audit log records starts and ends by hand, without the chat', async () => {
	await run('start', '7654321', '--until', '2998-01-01');
	await run('end', '7654321', '--at', '2998-01-01');
	const rows = await database.sql`
		select action, details::text from audit_log where details::text like '%2998%' order by id`;
	expect(rows.map(({ action }) => action)).toEqual(['subscription started', 'subscription ended']);
	expect(JSON.stringify(rows)).not.toContain('7654321');
});
