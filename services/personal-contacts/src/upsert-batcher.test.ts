import { setImmediate } from 'node:timers/promises';
import type { Database } from '@contacts/common/database/database.js';
import { openDatabase } from '@contacts/common/database/database.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { watchDelays } from '@contacts/testing/machine-delays.js';
import { test, database as test_ } from '@contacts/testing/test.js';
import fc from 'fast-check';
import { Registry } from 'prom-client';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { service } from './app.js';
import type { PersonalContact } from './personal-contacts.sql.js';
import { createUpsertBatcher, type UpsertBatcher } from './upsert-batcher.js';

let database: Database;
let app: TestApp;

test.beforeAll(async () => {
	await addProject(test_.sql, 'first', 'first-key');
	await addProject(test_.sql, 'second', 'second-key');
	database = openDatabase({ url: test_.url, applicationName: 'writer', poolSize: 10 });
	app = await startTestApp(service, test_.url);
	await test_.sql.unsafe(`
		create function refuse() returns trigger language plpgsql as
			$$ begin if new.name = 'refused' then raise exception 'refused'; end if; return new; end $$;
		create trigger refuse before insert or update on personal_contacts for each row execute function refuse();
		create function wait_at_commit() returns trigger language plpgsql as
			$$ begin if new.name = 'held' then perform pg_advisory_xact_lock_shared(42); end if; return null; end $$;
		create constraint trigger wait_at_commit after insert or update on personal_contacts
			deferrable initially deferred for each row execute function wait_at_commit()`);
});
afterAll(async () => {
	await app?.close();
	await database?.close();
});

const createWriter = (registry = new Registry()) => createUpsertBatcher({ database, registry });
const post = (contact: PersonalContact) =>
	app.fetch('/api/personal_contacts?project=first&api_key=first-key', {
		method: 'POST',
		headers: { 'content-type': 'application/json' },
		body: JSON.stringify(contact),
	});
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

/** Holds a lock on a separate connection until it is released. */
async function hold(statement: string): Promise<() => Promise<void>> {
	const connection = await test_.sql.reserve();
	await connection.unsafe(`begin; ${statement}`);
	let held = true;
	const release = async () => {
		if (held) await connection.unsafe('commit');
		if (held) connection.release();
		held = false;
	};
	onTestFinished(release);
	return release;
}

const waitingForLocks = async () =>
	(await test_.sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`)
		.length;

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

				const results: Promise<boolean>[] = [];
				for (const step of steps) {
					const result = send(writer, together, step);
					results.push(result);
					if (step.next === 'a turn') await setImmediate();
					if (step.next === 'this') await result;
					if (step.next === 'all') await Promise.all(results);
				}
				const expected: boolean[] = [];
				for (const step of steps) expected.push(await send(createWriter(), oneByOne, step));

				expect(await Promise.all(results)).toEqual(expected);
				expect(await stored(together, together + 10)).toEqual(await stored(oneByOne, oneByOne + 10));
			}),
			{ numRuns: 500 },
		);
		const { count, sum } = await groups(registry);
		console.info(`500 interleavings: ${sum} contacts in ${count} statements`);
		expect(count).toBeLessThan(sum);
	}, 120_000);

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

	test('of two replicas do not wait for each other, whatever the order of their chats', async () => {
		// With these joins rows keep the order in which they were sent, unless the statement orders them.
		const url = `${test_.url}?enable_hashjoin=off&enable_mergejoin=off`;
		const databases = ['one', 'two'].map((applicationName) => openDatabase({ url, applicationName, poolSize: 10 }));
		onTestFinished(() => Promise.all(databases.map((database) => database.close())).then(() => undefined));
		const registries = databases.map(() => new Registry());
		const writers = databases.map((database, n) =>
			createUpsertBatcher({ database, registry: registries[n] as Registry }),
		);
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
		// A statement that waits too long for a row is split, long before PostgreSQL would report a deadlock.
		for (const registry of registries) expect(await registry.metrics()).toMatch(/^upsert_batches_split_total 0$/m);
		expect(await stored(5_000, 5_250)).toHaveLength(250);
	});
});

describe('a response', () => {
	test('comes only after the commit of its own batch', async () => {
		const release = await hold('select pg_advisory_xact_lock(42)');
		const received: number[] = [];
		const responses = Array.from({ length: 20 }, async (_, n) => {
			const response = await post({ chat_id: 6_000 + n, name: 'held' });
			received.push(n);
			return response.json();
		});
		await expect.poll(waitingForLocks).toBeGreaterThan(0);
		expect(received).toEqual([]);
		expect(await stored(6_000, 6_020)).toEqual([]);
		await release();
		expect(await Promise.all(responses)).toEqual(Array(20).fill({ ok: 'saved' }));
		expect(await stored(6_000, 6_020)).toHaveLength(20);
	});

	test('is a 500 for the one contact that the database refuses, and "saved" for its neighbours', async () => {
		const responses = await Promise.all(
			Array.from({ length: 40 }, (_, n) => post({ chat_id: 7_000 + n, name: n === 17 ? 'refused' : 'taken' })),
		);
		expect(responses.map(({ status }) => status)).toEqual(Array.from({ length: 40 }, (_, n) => (n === 17 ? 500 : 200)));
		expect(await stored(7_000, 7_040)).toHaveLength(39);
	});

	test('waits for a locked row only if it is its own', async () => {
		await post({ chat_id: 8_015 });
		const release = await hold('select from personal_contacts where chat_id = 8015 for update');
		const responses = Array.from({ length: 30 }, (_, n) => post({ chat_id: 8_000 + n, name: 'new' }));
		const stop = watchDelays(() => test_.sql`select 1`);
		const begun = performance.now();
		const others = responses.filter((_, n) => n !== 15);
		expect((await Promise.all(others)).every(({ status }) => status === 200)).toBe(true);
		const ended = performance.now();
		const machine = await stop();
		// Far less than the three seconds that a statement may take.
		expect(ended - begun - machine.during(begun, ended)).toBeLessThan(2500);
		expect(await stored(8_015, 8_016)).toMatchObject([{ name: null }]);
		await release();
		expect((await responses[15])?.status).toBe(200);
		expect(await stored(8_015, 8_016)).toMatchObject([{ name: 'new' }]);
	});

	test('does not wait for a blocked batch', async () => {
		await post({ chat_id: 8_500 });
		const release = await hold('select from personal_contacts where chat_id = 8500 for update');
		const registry = new Registry();
		const writer = createWriter(registry);
		const held = Promise.all([8_500, 8_501].map((chat_id) => writer.save({ contact: { chat_id }, projectId: 1 })));
		await expect.poll(waitingForLocks).toBeGreaterThan(0);
		for (let chat_id = 8_502; chat_id < 8_505; chat_id++) await writer.save({ contact: { chat_id }, projectId: 1 });
		// The batch still waits for the row: half a second after its start it would be split.
		expect(await registry.metrics()).toMatch(/^upsert_batches_split_total 0$/m);
		await release();
		expect(await held).toEqual([true, true]);
	});

	test('is a 503 at once while a thousand contacts wait, and nothing is written', async () => {
		const release = await hold('lock table personal_contacts in exclusive mode');
		const writer = createWriter();
		const outcomes = Array.from({ length: 1_300 }, (_, n) =>
			writer.save({ contact: { chat_id: 9_000 + n }, projectId: 1 }).then(
				() => 'saved',
				(error: Error) => error.name,
			),
		);
		await release();
		const all = await Promise.all(outcomes);
		const refused = all.filter((outcome) => outcome === 'DatabaseBusyError').length;
		expect(all.filter((outcome) => outcome === 'saved')).toHaveLength(1_300 - refused);
		expect(refused).toBeGreaterThan(200);
		expect(await stored(9_000, 10_300)).toHaveLength(1_300 - refused);
	});
});

test('contacts pipelined over one connection are applied in their order', async () => {
	const bodies = Array.from({ length: 30 }, (_, n) => JSON.stringify({ chat_id: 11_000, name: `${n}` }));
	const requests = bodies.map((body, n) =>
		[
			'POST /api/personal_contacts?project=first&api_key=first-key HTTP/1.1',
			'Host: contacts',
			'Content-Type: application/json',
			`Content-Length: ${body.length}`,
			...(n === bodies.length - 1 ? ['Connection: close'] : []),
			'',
			body,
		].join('\r\n'),
	);
	const responses = await app.raw(requests.join(''));
	expect(responses.match(/\{"ok":"saved"\}/g)).toHaveLength(30);
	expect(await stored(11_000, 11_001)).toMatchObject([{ name: '29' }]);
});

function storable(text: string): boolean {
	return text.isWellFormed() && !text.includes('\0');
}
