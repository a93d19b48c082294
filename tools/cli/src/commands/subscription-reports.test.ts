import { spawnSync } from 'node:child_process';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type { Sql } from '@contacts/common/database/client.js';
import type { Database } from '@contacts/common/database/database.js';
import type { Deadline } from '@contacts/common/database/deadline.js';
import type { WriteStatement, WrittenRows } from '@contacts/common/database/expiring-write.js';
import { applySubscriptionReport } from '@contacts/personal-contacts/direct-subscriptions.sql.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { expect } from 'vitest';
import { contacts, fileWith } from '../testing/command.js';
import { holdInserts, lockWaiters, ownDatabase } from '../testing/own-database.js';

// Reports of the bot backend beside what the operator does.

const run = (...args: string[]) => contacts(database.url, ['subscription', ...args]);

const importText = async (text: string) => run('import', await fileWith(text));

/** In milliseconds since the epoch. */
const databaseTime = async (sql: Sql = database.sql) =>
	(await sql<[{ at: number }]>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as at`)[0].at;

/**
 * Delivers a report of personal-contacts once.
 *
 * @param sentAt when it was sent, by the database's clock
 * @param lifetimeMs until it expires, counted from its delivery
 * @returns whether it was applied
 */
async function deliver(
	chatId: number,
	isActive: boolean,
	sentAt: number,
	{ lifetimeMs = 3_600_000, sql = database.sql as Sql } = {},
): Promise<boolean> {
	let rows: WrittenRows = [];
	const write = async (statement: WriteStatement<WrittenRows>) => {
		rows = await statement(sql, { sentAtLeast: sentAt, expires: (await databaseTime(sql)) + lifetimeMs });
		return rows;
	};
	await applySubscriptionReport({ write } as Pick<Database, 'write'> as Database, { chatId, isActive }, {} as Deadline);
	return rows[0]?.outcome === 'saved';
}

const isSubscribed = async (chatId: number) =>
	(
		await database.sql`
		select from direct_subscriptions
		where chat_id = ${chatId}::float8::bigint and (ended_at is null or ended_at > now())`
	).length === 1;

/** The stored subscriptions, with today's times as `now` and `ended`. */
async function stored(sql: Sql): Promise<string> {
	const [row] = await sql<[{ rows: string }]>`
		select string_agg(concat_ws(' ', chat_id,
			case when started_at > now() - interval '1 day' then 'now' else started_at::date::text end,
			case when ended_at is null then 'open' when ended_at <= clock_timestamp() then 'ended' else ended_at::date::text end
		), ', ' order by direct_subscriptions.started_at) as rows
		from direct_subscriptions`;
	return row.rows;
}

test.each([
	['start', 1, false, true, () => run('start', '1')],
	['end', 2, true, false, () => run('end', '2')],
	['import', 9007199254740991, false, true, () => importText('chat_id\n9007199254740991\n')],
	['import', 5, true, true, () => importText('chat_id\n5\n')],
] as const)(
	'a report that was sent before "subscription %s" and arrives later is not applied (chat %s, active before: %s, after: %s)',
	async (_, chatId, wasActive, isActive, command) => {
		expect(await deliver(chatId, wasActive, await databaseTime())).toBe(true);
		const sentAt = await databaseTime();
		expect(await command()).toMatchObject({ code: 0, stderr: '' });
		expect(await deliver(chatId, !isActive, sentAt)).toBe(false);
		expect(await isSubscribed(chatId)).toBe(isActive);
		expect(await deliver(chatId, !isActive, await databaseTime())).toBe(true);
		expect(await isSubscribed(chatId)).toBe(!isActive);
	},
);

test('a report that a chat is subscribed removes the end that a command has planned, and keeps the start', async () => {
	const own = await ownDatabase();
	const args = ['subscription', 'start', '82', '--from', '2026-01-01', '--until', '2999-02-01'];
	expect(await contacts(own.url, args)).toMatchObject({ code: 0 });
	expect(await stored(own.sql)).toBe('82 2026-01-01 2999-02-01');
	expect(await deliver(82, true, await databaseTime(own.sql), { sql: own.sql })).toBe(true);
	expect(await stored(own.sql)).toBe('82 2026-01-01 open');
});

test('a command that fails prevents no report', async () => {
	const sentAt = await databaseTime();
	expect(await run('end', '3')).toMatchObject({ code: 1 });
	expect(await deliver(3, true, sentAt)).toBe(true);
	expect(await isSubscribed(3)).toBe(true);
});

test('a report that expired before it arrives does not bring back an erased chat, and one that is sent later counts as new', async () => {
	expect(await deliver(4, true, await databaseTime())).toBe(true);
	const sentAt = await databaseTime();
	expect(await contacts(database.url, ['person', 'erase', '--chat', '4', '--yes'])).toMatchObject({ code: 0 });
	expect(await deliver(4, true, sentAt, { lifetimeMs: 0 })).toBe(false);
	const find = await contacts(database.url, ['person', 'export', '--chat', '4']);
	expect(find).toMatchObject({ code: 1, stderr: expect.stringContaining('Nothing is stored') });
	expect(await deliver(4, true, await databaseTime())).toBe(true);
	expect(await isSubscribed(4)).toBe(true);
});

test('a report that meets a new row of its chat is refused before it expires, and is not saved when that row is withdrawn', async () => {
	const other = await database.sql.reserve();
	await other`begin`;
	await other`insert into direct_subscriptions (chat_id) values (6)`;
	const now = await databaseTime();
	const outcome = await deliver(6, true, now - 3_600_000, { lifetimeMs: 60_000 }).catch(({ code }) => code);
	expect([outcome, (await databaseTime()) < now + 60_000]).toEqual(['55P03', true]);
	await other`rollback`;
	other.release();
	expect(await isSubscribed(6)).toBe(false);
});

test.each([
	['start', null, false, '1 now open'],
	['end', '2020-02-01', true, '1 now ended'],
	['import', '2020-02-01', true, '1 now open'],
] as const)(
	'"subscription %s" sees what a report has changed that it waited for, and is newer than reports sent before that',
	async (command, endedAt, isActive, expected) => {
		const own = await ownDatabase();
		await own.sql`
			insert into direct_subscriptions (chat_id, started_at, ended_at)
			values (1, '2020-01-01', ${endedAt}::text::timestamptz)`;
		const report = await own.sql.reserve();
		await report`begin`;
		await report`select from direct_subscriptions for update`;
		const argument = command === 'import' ? await fileWith('chat_id\n1\n') : '1';
		const done = contacts(own.url, ['subscription', command, argument]);
		await lockWaiters(own);
		const sentBefore = await databaseTime(own.sql);
		expect(await deliver(1, isActive, await databaseTime(own.sql), { sql: report })).toBe(true);
		await report`commit`;
		report.release();
		expect(await done).toMatchObject({ code: 0, stderr: '' });
		expect(await stored(own.sql)).toBe(expected);
		expect(await deliver(1, !expected.endsWith('open'), sentBefore, { sql: own.sql })).toBe(false);
		expect(await stored(own.sql)).toBe(expected);
	},
);

test('an import that waits for one locked chat holds up no report of another one, and goes on when it is free', async () => {
	const own = await ownDatabase();
	await own.sql`insert into direct_subscriptions (chat_id, started_at) select n, '2020-01-01' from generate_series(1, 3) n`;
	const lock = await own.sql.reserve();
	await lock`begin`;
	await lock`select from direct_subscriptions where chat_id = 3 for update`;
	let isDone = false;
	const done = contacts(own.url, ['subscription', 'import', await fileWith('chat_id\n1\n2\n3\n')]).finally(() => {
		isDone = true;
	});
	await lockWaiters(own);
	const report = async () => deliver(1, false, await databaseTime(own.sql), { sql: own.sql }).catch(() => false);
	await expect.poll(report).toBe(true);
	expect(isDone).toBe(false);
	await lock`commit`;
	lock.release();
	expect(await done).toMatchObject({ code: 0, stderr: '' });
});

test('a report that is acknowledged after an import began stays, also while the import still waits for its file', async () => {
	const own = await ownDatabase();
	const path = join(await temporaryFolder(), 'subscribers.csv');
	expect(spawnSync('mkfifo', [path]).status).toBe(0);
	const done = contacts(own.url, ['subscription', 'import', path, '--json']);
	const pipe = await open(path, 'w');
	const began = () => own.sql`
		select from pg_stat_activity where datname = current_database() and application_name = 'contacts'
		and state = 'idle' and query like '%clock_timestamp%'`;
	await expect.poll(began).toHaveLength(1);
	expect(await deliver(7, true, await databaseTime(), { sql: own.sql })).toBe(true);
	await pipe.write('chat_id,ended_at\n7,2999-01-01\n');
	await pipe.close();
	expect(await done).toMatchObject({ code: 0, stdout: '{"records":1,"applied":0,"older":1}\n', stderr: '' });
	expect(await stored(own.sql)).toBe('7 now open');
});

test('an import saves 5,000 lines at a time: a report on a chat of an earlier or a later part waits for nothing, and stays', async () => {
	const own = await ownDatabase();
	const path = await fileWith(['chat_id', ...Array.from({ length: 12_000 }, (_, index) => index + 1)].join('\n'));
	const hold = await holdInserts(
		own,
		'direct_subscriptions',
		'exists (select from direct_subscriptions where chat_id = 1)',
	);
	const done = contacts(own.url, ['subscription', 'import', path, '--json']);
	await hold.waits();
	// The trigger is for the statement of the import, not for the reports.
	const report = await own.sql.reserve();
	await report`set session_replication_role = replica`;
	for (const chatId of [5000, 11_000])
		expect(await deliver(chatId, false, await databaseTime(own.sql), { sql: report })).toBe(true);
	report.release();
	await hold.release();
	expect(await done).toMatchObject({ code: 0, stdout: '{"records":12000,"applied":11999,"older":1}\n' });
	const ended =
		await own.sql`select chat_id::int as id from direct_subscriptions where ended_at is not null order by 1`;
	expect(ended.map(({ id }) => id)).toEqual([5000, 11_000]);
});
