import { spawnSync } from 'node:child_process';
import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Sql } from '@contacts/common/database/client.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { expect } from 'vitest';
import { contacts } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

// Reports of the bot backend beside what the operator does.

const run = (...args: string[]) => contacts(database.url, ['subscription', ...args]);

async function importText(text: string) {
	const path = join(await temporaryFolder(), 'subscribers.csv');
	await writeFile(path, text);
	return run('import', path);
}

const databaseTime = async () => (await database.sql<[{ at: string }]>`select clock_timestamp()::text as at`)[0].at;

/**
 * Executes a report as personal-contacts sends it.
 *
 * @param sentAt when it was sent, by the database's clock
 * @param lifetime until it expires, counted from its delivery
 * @returns whether it was applied
 */
async function deliver(
	chatId: number,
	isActive: boolean,
	sentAt: string,
	lifetime = '1 hour',
	sql: Sql = database.sql,
): Promise<boolean> {
	const [row] = await sql<[{ is_applied: boolean }]>`
		select apply_direct_subscription_report(
			${chatId}::float8::bigint, ${isActive}::boolean, null, ${sentAt}::text::timestamptz,
			clock_timestamp() + ${lifetime}::text::interval
		) as is_applied`;
	return row.is_applied;
}

const isSubscribed = async (chatId: number) =>
	(
		await database.sql`
		select from direct_subscriptions
		where chat_id = ${chatId}::float8::bigint and started_at <= now() and (ended_at is null or ended_at > now())`
	).length === 1;

/** The stored subscriptions in one line, with today's times as `now` and `ended`. */
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
	['start', 1, true, () => run('start', '1')],
	['end', 2, false, () => run('end', '2')],
	['import', 9007199254740991, true, () => importText('chat_id\n9007199254740991\n')],
] as const)(
	'a report that was sent before "subscription %s" and arrives later is not applied',
	async (_, chatId, isActive, command) => {
		expect(await deliver(chatId, !isActive, await databaseTime())).toBe(true);
		const sentAt = await databaseTime();
		expect(await command()).toMatchObject({ code: 0, stderr: '' });
		expect(await deliver(chatId, !isActive, sentAt)).toBe(false);
		expect(await isSubscribed(chatId)).toBe(isActive);
		expect(await deliver(chatId, !isActive, await databaseTime())).toBe(true);
		expect(await isSubscribed(chatId)).toBe(!isActive);
	},
);

test('a subscription that is planned with an end stays as it is when a report starts another one before it, and ends that', async () => {
	const planned = ['2999-01-01T00:00:00Z', '2999-02-01T00:00:00Z'];
	expect(await run('start', '82', '--from', '2999-01-01', '--until', '2999-02-01')).toMatchObject({ code: 0 });
	const times = async () =>
		(JSON.parse((await run('list', '82', '--json')).stdout) as Record<string, string>[]).map((row) => [
			row.started_at,
			row.ended_at,
		]);
	expect(await deliver(82, true, await databaseTime())).toBe(true);
	expect(await times()).toEqual([planned, [expect.any(String), null]]);
	expect(await deliver(82, false, await databaseTime())).toBe(true);
	expect(await times()).toEqual([planned, [expect.any(String), expect.any(String)]]);
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
	expect(await deliver(4, true, sentAt, '0 seconds')).toBe(false);
	const find = await contacts(database.url, ['person', 'find', '--chat', '4']);
	expect(find).toMatchObject({ code: 1, stderr: expect.stringContaining('Nothing is stored') });
	expect(await deliver(4, true, await databaseTime())).toBe(true);
	expect(await isSubscribed(4)).toBe(true);
});

test.each([
	['start', null, false, '1 2020-01-01 ended, 1 now open'],
	['end', '2020-02-01', true, '1 2020-01-01 ended, 1 now ended'],
] as const)(
	'"subscription %s" sees what a report has changed that it waited for',
	async (command, endedAt, isActive, expected) => {
		const own = await ownDatabase();
		await own.sql`
			insert into direct_subscriptions (chat_id, started_at, ended_at)
			values (1, '2020-01-01', ${endedAt}::text::timestamptz)`;
		const report = await own.sql.reserve();
		await report`begin`;
		await report`insert into direct_subscription_reports values (1, '2020-01-01')`;
		const done = contacts(own.url, ['subscription', command, '1']);
		const waiting = () => own.sql`
			select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
		await expect.poll(waiting, { timeout: 20_000 }).toHaveLength(1);
		expect(await deliver(1, isActive, await databaseTime(), '1 hour', report)).toBe(true);
		await report`commit`;
		report.release();
		expect(await done).toMatchObject({ code: 0, stderr: '' });
		expect(await stored(own.sql)).toBe(expected);
	},
);

test('an import that waits for its file ends the subscription that a report starts meanwhile', async () => {
	const own = await ownDatabase();
	const path = join(await temporaryFolder(), 'subscribers.csv');
	expect(spawnSync('mkfifo', [path]).status).toBe(0);
	const done = contacts(own.url, ['subscription', 'import', path]);
	const pipe = await open(path, 'w');
	const idle = () => own.sql`
		select from pg_stat_activity where datname = current_database() and application_name = 'contacts'
		and state = 'idle in transaction'`;
	await expect.poll(idle, { timeout: 20_000 }).toHaveLength(1);
	expect(await deliver(7, true, await databaseTime(), '1 hour', own.sql)).toBe(true);
	await pipe.write('chat_id,ended_at\n7,2999-01-01\n');
	await pipe.close();
	expect(await done).toMatchObject({ code: 0, stderr: '' });
	expect(await stored(own.sql)).toBe('7 now 2999-01-01');
});
