import { setImmediate } from 'node:timers/promises';
import { type Database, openDatabase } from '@contacts/common/database/database.js';
import { startDeadline } from '@contacts/common/database/deadline.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { test, database as test_ } from '@contacts/testing/test.js';
import fc from 'fast-check';
import { Registry } from 'prom-client';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { service } from './app.js';
import { type Outcome, type PersonalContact, savePersonalContacts } from './personal-contacts.sql.js';
import { createUpsertBatcher, type UpsertBatcher } from './upsert-batcher.js';

const clock = () => performance.now();
let database: Database;
let app: TestApp;
/** No test is about the deadline, which a busy machine may miss. */
const deadlineMs = 60_000;
const soon = () => startDeadline(deadlineMs);

test.beforeAll(async () => {
	await addProject(test_.sql, 'first', 'first-key');
	await addProject(test_.sql, 'second', 'second-key');
	database = openDatabase({ url: test_.url, applicationName: 'writer', poolSize: 10, deadlineMs, clock });
	app = await startTestApp(service, test_.url, { database: { deadlineMs } });
	await test_.sql.unsafe(`
		create sequence attempts;
		create function refuse() returns trigger language plpgsql security definer as $$ begin
			if new.name = 'refused' then raise exception 'refused'; end if;
			if new.name = 'early' and nextval('public.attempts') < 4 then raise 'the server starts' using errcode = '57P03'; end if;
			return new;
		end $$;
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
const stored = (from: number, to: number) =>
	test_.sql<Record<string, unknown>[]>`
		select chat_id - ${from}::bigint as chat, username, name, birth_date::text, project_id
		from personal_contacts where chat_id >= ${from} and chat_id < ${to} order by chat_id`;

const post = (contact: PersonalContact, to = app) =>
	to.fetch('/api/personal_contacts?project=first&api_key=first-key', {
		method: 'POST',
		headers: { 'content-type': 'application/json' },
		body: JSON.stringify(contact),
	});

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

const waiting = async ({ registry }: TestApp) => Number(/^upserts_waiting (\d+)$/m.exec(await registry.metrics())?.[1]);
const waitingForLocks = async () =>
	(await test_.sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`)
		.length;

/** Statements so far, and the contacts that they wrote. */
async function batches(registry: Registry): Promise<{ count: number; sum: number }> {
	const text = await registry.metrics();
	const value = (name: string) => Number(new RegExp(`^upsert_batch_size_${name} (\\d+)`, 'm').exec(text)?.[1]);
	return { count: value('count'), sum: value('sum') };
}

describe('batches', () => {
	test('have the same result as single writes, in 300 random interleavings', async () => {
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
			select ${base}::bigint + 10 * n + 4 from generate_series(0, 601) n`;
		const registry = new Registry();
		const writer = createWriter(registry);

		await fc.assert(
			fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 30, size: 'max' }), async (steps) => {
				const [together, oneByOne] = [base, base + 10];
				base += 20;
				const send = (to: UpsertBatcher, first: number, { fields, chat, project }: (typeof steps)[number]) =>
					to.save({ contact: { chat_id: first + chat, ...fields }, projectId: projects[project]?.id ?? 0 }, soon());

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
			{ numRuns: 300 },
		);
		const { count, sum } = await batches(registry);
		console.info(`300 interleavings: ${sum} contacts in ${count} statements`);
		expect(count).toBeLessThan(sum);
	}, 600_000);

	test('are executed two at a time, with at most 64 chats each', async () => {
		let [running, most] = [0, 0];
		const write: Database['write'] = (...args) => {
			most = Math.max(most, ++running);
			return database.write(...args).finally(() => running--);
		};
		const registry = new Registry();
		const writer = createUpsertBatcher({ database: { ...database, write }, registry });
		const save = (chat: number) => writer.save({ contact: { chat_id: 20_000 + chat }, projectId: 1 }, soon());
		await Promise.all(Array.from({ length: 256 }, (_, n) => save(n)));
		expect(most).toBe(2);
		expect(await batches(registry)).toEqual({ count: 4, sum: 256 });
		// Without load each contact is written at once.
		for (let n = 0; n < 20; n++) await save(n);
		expect(await batches(registry)).toEqual({ count: 24, sum: 276 });
	});

	test('of two replicas do not wait for each other, whatever the order of their chats', async () => {
		// With these joins rows keep the order in which they were sent, unless the statement orders them. A deadlock is found
		// before the batch is split.
		const url = `${test_.url}?enable_hashjoin=off&enable_mergejoin=off&deadlock_timeout=10ms`;
		const databases = ['one', 'two'].map((applicationName) =>
			openDatabase({ url, applicationName, poolSize: 10, clock }),
		);
		const close = () => Promise.all(databases.map((database) => database.close())).then(() => undefined);
		onTestFinished(close);
		const writers = databases.map((database) => createUpsertBatcher({ database, registry: new Registry() }));
		const chats = Array.from({ length: 250 }, (_, n) => 5_000 + n);
		for (let round = 0; round < 20; round++) {
			await Promise.all(
				writers.flatMap((writer, n) =>
					(n === 0 ? chats : chats.toReversed()).map((chat) =>
						writer.save({ contact: { chat_id: chat, name: `${round}` }, projectId: 1 }, soon()),
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

describe('a response', () => {
	test('comes only after the commit of the batch that has its contact', async () => {
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

	test('waits while the database refuses everything for a temporary reason', async () => {
		const responses = await Promise.all([7_100, 7_101].map((chat_id) => post({ chat_id, name: 'early' })));
		expect(responses.map(({ status }) => status)).toEqual([200, 200]);
	});

	test('waits for a locked row only if it is its own', async () => {
		await post({ chat_id: 8_015 });
		const release = await hold('select from personal_contacts where chat_id = 8015 for update');
		const responses = Array.from({ length: 30 }, (_, n) => post({ chat_id: 8_000 + n, name: 'new' }));
		const others = await Promise.all(responses.filter((_, n) => n !== 15));
		expect(others.every(({ status }) => status === 200)).toBe(true);
		expect(await stored(8_015, 8_016)).toMatchObject([{ name: null }]);
		await release();
		expect((await responses[15])?.status).toBe(200);
		expect(await stored(8_015, 8_016)).toMatchObject([{ name: 'new' }]);
	});

	test.each(['personal_contacts', 'direct_subscriptions'])(
		'is not refused while many chats wait for locked rows of %s',
		async (table) => {
			// With few connections, and so much time that only waits for each other can exhaust it.
			const busy = await startTestApp(service, test_.url, { database: { poolSize: 4, deadlineMs: 20_000 } });
			onTestFinished(() => busy.close());
			const [base, locked] = [table === 'personal_contacts' ? 110_000 : 120_000, 80];
			const [columns, values] = table === 'personal_contacts' ? ['chat_id, project_id', ', 1'] : ['chat_id', ''];
			await test_.sql.unsafe(
				`insert into ${table} (${columns}) select ${base} + n ${values} from generate_series(0, ${locked - 1}) n`,
			);
			const release = await hold(`select from ${table} where chat_id >= ${base} for update`);
			const report = (chat_id: number) =>
				busy.fetch('/api/direct_subscriptions?project=first&api_key=first-key', {
					method: 'POST',
					headers: { 'content-type': 'application/json' },
					body: JSON.stringify({ chat_id, active: true }),
				});
			const waiting = Array.from({ length: locked }, (_, n) =>
				table === 'personal_contacts' ? post({ chat_id: base + n }, busy) : report(base + n),
			);
			await expect.poll(waitingForLocks).toBeGreaterThan(0);
			const others = Array.from({ length: 20 }, (_, n) => post({ chat_id: base + 1000 + n }, busy));
			expect((await Promise.all(others)).map(({ status }) => status)).toEqual(Array(20).fill(200));
			await release();
			expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual(Array(locked).fill(200));
		},
	);

	test.each([
		['has no response', false],
		['loses its connection', true],
	])('is a failure only for the contact at its deadline, when a batch %s', async (_, isCut) => {
		const network = await startTcpProxy(test_.url);
		onTestFinished(() => network.close());
		const behind = openDatabase({
			url: network.through(test_.url),
			applicationName: 'behind',
			poolSize: 1,
			deadlineMs,
			clock,
		});
		onTestFinished(() => behind.close());
		const writer = createUpsertBatcher({ database: behind, registry: new Registry() });
		const save = (chat_id: number, leftMs: number) =>
			writer.save({ contact: { chat_id }, projectId: 1 }, startDeadline(leftMs));
		const first = isCut ? 140_000 : 130_000;
		expect(await save(first, deadlineMs)).toBe('saved');
		if (isCut) network.stall();
		else network.holdBack();
		const saved = Promise.allSettled([save(first + 1, 700), save(first + 2, deadlineMs)]);
		if (isCut) {
			await expect.poll(() => network.held).toBeGreaterThan(0);
			network.cut();
			await network.restore();
		}
		const [late, early] = await saved;
		expect(late).toMatchObject({ status: 'rejected', reason: { name: 'DatabaseError' } });
		expect(early).toEqual({ status: 'fulfilled', value: 'saved' });
	});

	test('does not wait for a slow batch', async () => {
		let finish = (): void => undefined;
		const disk = new Promise<void>((resolve) => {
			finish = resolve;
		});
		let statements = 0;
		const write: Database['write'] = async (...args) => {
			const isFirst = statements++ === 0;
			const rows = await database.write(...args);
			if (isFirst) await disk;
			return rows;
		};
		const writer = createUpsertBatcher({ database: { ...database, write }, registry: new Registry() });
		const save = (chat_id: number) => writer.save({ contact: { chat_id }, projectId: 1 }, soon());
		const slow = Promise.all([save(80_000), save(80_001)]);
		await expect.poll(() => statements).toBe(1);
		for (let n = 2; n < 5; n++) expect(await save(80_000 + n)).toBe('saved');
		expect(statements).toBeGreaterThan(1);
		finish();
		expect(await slow).toEqual(['saved', 'saved']);
	});

	test('says what was done by the attempt that is answered, when the response to the first attempt was lost', async () => {
		const network = await startTcpProxy(test_.url);
		onTestFinished(() => network.close());
		const behindNetwork = { url: network.through(test_.url), poolSize: 1, deadlineMs: 60_000 };
		const other = await startTestApp(service, test_.url, { database: behindNetwork });
		onTestFinished(() => other.close());
		// The connection is open and has prepared the statement.
		await post({ chat_id: 900 }, other);
		network.holdResponses();
		const response = post({ chat_id: 901, name: 'Ivan' }, other);
		await expect.poll(() => stored(901, 902)).toHaveLength(1);
		await test_.sql`insert into direct_subscriptions (chat_id) values (901)`;
		expect(await (await response).json()).toEqual({ ok: 'skipped' });
		await network.restore();
		expect(await stored(901, 902)).toMatchObject([{ name: 'Ivan' }]);
	});

	test('is a 500 at the deadline while its chat is being written, and then it is never written', async () => {
		const other = await startTestApp(service, test_.url, { database: { deadlineMs: 1500 } });
		onTestFinished(() => other.close());
		await post({ chat_id: 940 });
		const release = await hold('select from personal_contacts where chat_id = 940 for update');
		const first = post({ chat_id: 940, name: 'first' }, other);
		await expect.poll(() => waiting(other)).toBe(1);
		const second = post({ chat_id: 940, name: 'second' }, other);
		expect([(await first).status, (await second).status]).toEqual([500, 500]);
		await release();
		await post({ chat_id: 941 }, other);
		expect(await stored(940, 941)).toMatchObject([{ name: null }]);
	});
});

test('a statement that was sent before its row was written changes nothing, although it arrives before its expiry', async () => {
	const save = (name: string, sentEarlierMs: number) => {
		const write: Database['write'] = (statement, options) =>
			database.write(
				(sql, { sentAtLeast, expires }) => statement(sql, { sentAtLeast: sentAtLeast - sentEarlierMs, expires }),
				{ ...options, repeatsUndone: false },
			);
		const sent = [{ contact: { chat_id: 950, name }, projectId: 1 }];
		// The time of a batch would be over.
		return savePersonalContacts({ ...database, write }, sent, soon(), 'alone');
	};
	expect(await save('newer', 0)).toEqual(new Map([[950, 'saved']]));
	expect(await save('older', 60_000)).toEqual(new Map());
	expect(await stored(950, 951)).toMatchObject([{ name: 'newer' }]);
	// A retry that is sent now counts.
	await expect.poll(() => save('again', 0)).toEqual(new Map([[950, 'saved']]));
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
	const save = () => writer.save({ contact: { chat_id: chat++ }, projectId: project?.id ?? 0 }, soon());
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
