import { setImmediate } from 'node:timers/promises';
import type { Database } from '@contacts/common/database/database.js';
import { openDatabase } from '@contacts/common/database/database.js';
import { addProject } from '@contacts/testing/app.js';
import { test, database as test_ } from '@contacts/testing/test.js';
import fc from 'fast-check';
import { Registry } from 'prom-client';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import type { Outcome } from './personal-contacts.sql.js';
import { createUpsertBatcher, type UpsertBatcher } from './upsert-batcher.js';

let database: Database;

test.beforeAll(async () => {
	await addProject(test_.sql, 'first', 'first-key');
	await addProject(test_.sql, 'second', 'second-key');
	database = openDatabase({ url: test_.url, applicationName: 'writer', poolSize: 10 });
});
afterAll(() => database?.close());

const createWriter = (registry = new Registry()) => createUpsertBatcher({ database, registry });
const stored = (from: number, to: number) =>
	test_.sql<Record<string, unknown>[]>`
		select chat_id - ${from}::bigint as chat, username, name, birth_date::text, project_id
		from personal_contacts where chat_id >= ${from} and chat_id < ${to} order by chat_id`;

/** Statements so far, and the contacts that they wrote. */
async function groups(registry: Registry): Promise<{ count: number; sum: number }> {
	const text = await registry.metrics();
	const value = (name: string) => Number(new RegExp(`^upsert_batch_size_${name} (\\d+)`, 'm').exec(text)?.[1]);
	return { count: value('count'), sum: value('sum') };
}

describe('batches', () => {
	test('have the same result as single writes, in 500 random interleavings', async () => {
		const projects = await test_.sql<{ id: number }[]>`select id::float8 as id from projects order by code`;
		// Chats 0 to 9. Chat 4 has a subscription and is skipped.
		const text = fc.option(fc.string({ unit: 'grapheme', maxLength: 20 }).filter(storable), { nil: null });
		const step = fc.record({
			fields: fc.record(
				{ username: text, name: text, birth_date: fc.constantFrom(null, '1990-05-17', '2024-02-29') },
				{ requiredKeys: [] },
			),
			chat: fc.nat({ max: 9 }),
			project: fc.nat({ max: 1 }),
			/** What the test waits for before the next contact. */
			next: fc.oneof({ weight: 8, arbitrary: fc.constant('at once') }, fc.constantFrom('a turn', 'this', 'all')),
		});
		let base = 1_000_000;
		await test_.sql`
			insert into direct_subscriptions (chat_id)
			select ${base}::bigint + 10 * n + 4 from generate_series(0, 1001) n`;
		const registry = new Registry();
		const writer = createWriter(registry);

		await fc.assert(
			fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 30, size: 'max' }), async (steps) => {
				const [together, oneByOne] = [base, base + 10];
				base += 20;
				const send = (to: UpsertBatcher, first: number, { fields, chat, project }: (typeof steps)[number]) =>
					to.save({ contact: { chat_id: first + chat, ...fields }, projectId: projects[project]?.id ?? 0 });

				const results: Promise<Outcome>[] = [];
				for (const step of steps) {
					const result = send(writer, together, step);
					results.push(result);
					if (step.next === 'a turn') await setImmediate();
					if (step.next === 'this') await result;
					if (step.next === 'all') await Promise.all(results);
				}
				const expected: Outcome[] = [];
				for (const step of steps) expected.push(await send(createWriter(), oneByOne, step));

				expect(await Promise.all(results)).toEqual(expected);
				expect(await stored(together, together + 10)).toEqual(await stored(oneByOne, oneByOne + 10));
			}),
			{ numRuns: 500 },
		);
		const { count, sum } = await groups(registry);
		console.info(`500 interleavings: ${sum} contacts in ${count} statements`);
		expect(count).toBeLessThan(sum);
	}, 600_000);

	test('form only while statements are in progress: without load each contact is written at once', async () => {
		const registry = new Registry();
		const writer = createWriter(registry);
		for (let chat = 1; chat <= 20; chat++) await writer.save({ contact: { chat_id: chat }, projectId: 1 });
		expect(await groups(registry)).toEqual({ count: 20, sum: 20 });

		await Promise.all(
			Array.from({ length: 200 }, (_, chat) => writer.save({ contact: { chat_id: 100 + chat }, projectId: 1 })),
		);
		const { count, sum } = await groups(registry);
		expect(sum).toBe(220);
		expect(count).toBeLessThanOrEqual(45);
	});

	test.each([
		[1, 15],
		[2, 16],
	])('are executed %i at a time while %i contacts wait', async (expected, waiting) => {
		const inUse = async (first: number) => {
			const writer = createWriter();
			const save = (chat_id: number) => writer.save({ contact: { chat_id }, projectId: 1 });
			const saved = [save(first)];
			await setImmediate();
			for (let n = 1; n <= waiting; n++) saved.push(save(first + n));
			await setImmediate();
			const { inUse } = database.connections;
			await Promise.all(saved);
			return inUse;
		};
		// A pause of the machine between the two turns may complete the first batch, or make it slow.
		const rounds: number[] = [];
		while (!rounds.includes(expected) && rounds.length < 20) rounds.push(await inUse(20_000 + 100 * rounds.length));
		expect(rounds).toContain(expected);
	});

	test('of two replicas do not wait for each other, whatever the order of their chats', async () => {
		// With these joins rows keep the order in which they were sent, unless the statement orders them. A deadlock is found
		// before the batch is split.
		const url = `${test_.url}?enable_hashjoin=off&enable_mergejoin=off&deadlock_timeout=10ms`;
		const databases = ['one', 'two'].map((applicationName) => openDatabase({ url, applicationName, poolSize: 10 }));
		const close = () => Promise.all(databases.map((database) => database.close())).then(() => undefined);
		onTestFinished(close);
		const writers = databases.map((database) => createUpsertBatcher({ database, registry: new Registry() }));
		const chats = Array.from({ length: 250 }, (_, n) => 5_000 + n);
		for (let round = 0; round < 20; round++) {
			await Promise.all(
				writers.flatMap((writer, n) =>
					(n === 0 ? chats : chats.toReversed()).map((chat) =>
						writer.save({ contact: { chat_id: chat, name: `${round}` }, projectId: 1 }),
					),
				),
			);
		}
		expect(await stored(5_000, 5_250)).toHaveLength(250);
		// Each connection reports its deadlocks when it ends.
		await close();
		const connected = () => test_.sql`
			select from pg_stat_activity where datname = current_database() and application_name in ('one', 'two')`;
		await expect.poll(connected).toHaveLength(0);
		const deadlocks = test_.sql`select deadlocks::int from pg_stat_database where datname = current_database()`;
		expect(await deadlocks).toEqual([{ deadlocks: 0 }]);
	});
});

test('an upsert reads no subscriptions of other chats, however many there are', async () => {
	await test_.sql`
		insert into direct_subscriptions (chat_id)
		select 10000000 + n from generate_series(1, 20000) n`;
	await test_.sql`analyze direct_subscriptions`;
	const statistics = async () => {
		const [row] = await test_.sql<[{ inserted: number; read: number }]>`
			select contacts.n_tup_ins::int as inserted, (subscriptions.seq_tup_read + coalesce(subscriptions.idx_tup_fetch, 0))::int as read
			from pg_stat_user_tables contacts, pg_stat_user_tables subscriptions
			where contacts.relname = 'personal_contacts' and subscriptions.relname = 'direct_subscriptions'`;
		return row;
	};
	const [project] = await test_.sql<{ id: number }[]>`select id::float8 as id from projects`;
	const writer = createWriter();
	let chat = 20_000_000;
	const save = () => writer.save({ contact: { chat_id: chat++ }, projectId: project?.id ?? 0 });
	// A backend reports its statistics with the first statement after a second.
	const reported = async (before: { inserted: number }) => {
		const saveAndRead = async () => (await save()) && (await statistics()).inserted;
		await expect.poll(saveAndRead, { interval: 100 }).toBeGreaterThan(before.inserted);
		return statistics();
	};
	const first = await reported(await statistics());
	const last = await reported(first);
	expect((last.read - first.read) / (last.inserted - first.inserted)).toBeLessThan(10);
	await test_.sql`delete from direct_subscriptions where chat_id > 10000000`;
});

function storable(text: string): boolean {
	return text.isWellFormed() && !text.includes('\0');
}
