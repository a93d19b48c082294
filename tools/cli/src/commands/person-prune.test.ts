import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword, type TestDatabase } from '@contacts/testing/database.js';
import { describe, expect, test } from 'vitest';
import { contacts, expectWrongUsage } from '../testing/command.js';
import { killInSecondBatch } from '../testing/killed.js';
import { ownDatabase } from '../testing/own-database.js';

describe('person prune', () => {
	const own = async () => {
		const other = await ownDatabase();
		await addProject(other.sql, 'bot', 'bot-key');
		await other.sql`
			insert into personal_contacts (chat_id, project_id, updated_at)
			select n, p.id, case when n <= 6000 then now() - interval '25 months' else now() - interval '23 months' end
			from generate_series(1, 6100) n, projects p`;
		// The subscription of chat 1 is active, that of chat 2 has ended long ago, that of chat 3 a month ago.
		await other.sql`
			insert into direct_subscriptions (chat_id, started_at, ended_at) values
				(1, now() - interval '30 months', null),
				(2, now() - interval '30 months', now() - interval '26 months'),
				(3, now() - interval '25 months', now() - interval '1 month')`;
		const prune = (...args: string[]) =>
			contacts(urlAs(other.url, 'privacy', rolePassword), ['person', 'prune', '--older-than', '24', ...args]);
		return { other, prune };
	};
	const recorded = async ({ sql }: TestDatabase) =>
		(
			await sql<{ details: object }[]>`
				select details from audit_log where action = 'personal contacts pruned' order by id`
		).map(({ details }) => details);
	const waiting = ({ sql }: TestDatabase) => sql`
		select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
	const expected = { personal_contacts: 5999, direct_subscriptions: 1 };

	test('first counts the rows, and with --yes deletes exactly those', async () => {
		const { other, prune } = await own();
		const dry = await prune();
		expect(dry.stdout).toBe('To delete: 5999 personal contacts, 1 ended subscriptions. Say --yes to do it.\n');
		expect(JSON.parse((await prune('--json')).stdout)).toEqual({ ...expected, deleted: false });
		expect((await other.sql`select from personal_contacts`).length).toBe(6100);

		expect(JSON.parse((await prune('--yes', '--json')).stdout)).toEqual({ ...expected, deleted: true });
		const left = await other.sql<{ chat: number }[]>`select chat_id::int as chat from personal_contacts order by 1`;
		expect(left.map(({ chat }) => chat)).toEqual([1, ...Array.from({ length: 100 }, (_, index) => 6001 + index)]);
		expect((await other.sql`select from direct_subscriptions`).length).toBe(2);
		expect(await recorded(other)).toEqual([
			{ ...expected, months: 24, personal_contacts: 5000 },
			{ months: 24, personal_contacts: 999, direct_subscriptions: 0 },
		]);
		expect(JSON.parse((await prune('--json')).stdout)).toMatchObject({ personal_contacts: 0 });
	});

	test('deletes all old rows when somebody writes one of them while a batch waits for it', async () => {
		const { other, prune } = await own();
		const writer = await other.sql.reserve();
		await writer`begin`;
		await writer`update personal_contacts set updated_at = now() where chat_id = 3000`;
		const pruned = prune('--yes', '--json');
		await expect.poll(() => waiting(other)).toHaveLength(1);
		await writer`commit`;
		writer.release();
		expect(JSON.parse((await pruned).stdout)).toEqual({ ...expected, personal_contacts: 5998, deleted: true });
		const left = await other.sql<{ chat: number }[]>`
			select chat_id::int as chat from personal_contacts where chat_id <= 6000 order by 1`;
		expect(left.map(({ chat }) => chat)).toEqual([1, 3000]);
	});

	test('keeps a subscription that a report begins again while a batch waits for it', async () => {
		const { other, prune } = await own();
		const report = await other.sql.reserve();
		await report`begin`;
		await report`update direct_subscriptions set started_at = now(), ended_at = null, reported_at = now() where chat_id = 2`;
		const pruned = prune('--yes', '--json');
		await expect.poll(() => waiting(other)).toHaveLength(1);
		await report`commit`;
		report.release();
		expect(JSON.parse((await pruned).stdout)).toEqual({ ...expected, direct_subscriptions: 0, deleted: true });
		expect(await other.sql`select from direct_subscriptions where chat_id = 2 and ended_at is null`).toHaveLength(1);
	});

	test('records what it has deleted when it is killed between two batches', async () => {
		const { other } = await own();
		const command = ['person', 'prune', '--older-than', '24', '--yes'];
		const url = urlAs(other.url, 'privacy', rolePassword);
		await killInSecondBatch(other, url, command, { table: 'personal_contacts', change: 'delete' });
		expect(await other.sql`select from personal_contacts`).toHaveLength(1100);
		expect(await recorded(other)).toEqual([{ ...expected, months: 24, personal_contacts: 5000 }]);
	});

	test.each(['0', '-1', '1.5', 'year', ''])('--older-than %j is wrong usage', async (months) => {
		await expectWrongUsage(
			'postgres://nobody@127.0.0.1:1/nothing',
			['person', 'prune', '--older-than', months],
			'--older-than takes',
		);
	});
});
