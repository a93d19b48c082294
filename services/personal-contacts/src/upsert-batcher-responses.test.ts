import type { Database } from '@contacts/common/database/database.js';
import { openDatabase } from '@contacts/common/database/database.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { watchDelays } from '@contacts/testing/machine-delays.js';
import { test, database as test_ } from '@contacts/testing/test.js';
import { Registry } from 'prom-client';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { service } from './app.js';
import type { PersonalContact } from './personal-contacts.sql.js';
import { createUpsertBatcher } from './upsert-batcher.js';

let database: Database;
let app: TestApp;

test.beforeAll(async () => {
	await addProject(test_.sql, 'first', 'first-key');
	// No test is about the deadline, which a busy machine may miss.
	const deadlineMs = 60_000;
	database = openDatabase({ url: test_.url, applicationName: 'writer', poolSize: 10, deadlineMs });
	app = await startTestApp(service, test_.url, { database: { deadlineMs } });
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
		// Far less than a statement may wait for a lock.
		expect(ended - begun - machine.during(begun, ended)).toBeLessThan(2500);
		expect(await stored(8_015, 8_016)).toMatchObject([{ name: null }]);
		await release();
		expect((await responses[15])?.status).toBe(200);
		expect(await stored(8_015, 8_016)).toMatchObject([{ name: 'new' }]);
	});

	test('does not wait for a locked row of another chat that was in the same batch as its previous contact', async () => {
		await post({ chat_id: 8_600 });
		const release = await hold('select from personal_contacts where chat_id = 8600 for update');
		const writer = createWriter();
		const save = (chat_id: number) => writer.save({ contact: { chat_id }, projectId: 1 });
		const [held, neighbour] = [save(8_600), save(8_601)];
		expect(await neighbour).toBe(true);
		expect(await save(8_601)).toBe(true);
		await release();
		expect(await held).toBe(true);
	});

	test('does not wait for a blocked batch', async () => {
		/** Whether other chats are saved before the blocked batch is split, half a second after its start. */
		const isSavedBeforeSplit = async (chat: number) => {
			await post({ chat_id: chat });
			const release = await hold(`select from personal_contacts where chat_id = ${chat} for update`);
			const registry = new Registry();
			const writer = createWriter(registry);
			const save = (chat_id: number) => writer.save({ contact: { chat_id }, projectId: 1 });
			const held = Promise.all([save(chat), save(chat + 1)]);
			await expect.poll(waitingForLocks).toBeGreaterThan(0);
			for (let n = 2; n < 5; n++) await save(chat + n);
			const metrics = await registry.metrics();
			await release();
			expect(await held).toEqual([true, true]);
			return /^upsert_batches_split_total 0$/m.test(metrics);
		};
		// A busy machine may need more than half a second.
		const rounds: boolean[] = [];
		while (!rounds.includes(true) && rounds.length < 20)
			rounds.push(await isSavedBeforeSplit(80_000 + 10 * rounds.length));
		expect(rounds).toContain(true);
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
