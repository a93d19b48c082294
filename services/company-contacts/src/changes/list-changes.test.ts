import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';
import { service } from '../app.js';
import { encodeCursor, lastId } from './feed-cursor.js';
import type { ChangesBody } from './testing/copy.js';

let apps: TestApp[];

test.beforeAll(async () => {
	await addProject(database.sql, 'partner', 'partner-key');
	const environment = { RATE_LIMIT_PER_SECOND: '100000', RATE_LIMIT_BURST: '100000' };
	apps = await Promise.all([1, 2].map(() => startTestApp(service, database.url, { environment })));
});
afterAll(() => Promise.all((apps ?? []).map((app) => app.close())));
test.beforeEach(async () => {
	await write('delete from company_contacts');
	await write(
		"insert into company_contacts (bitrix_id, name) values (50, 'Иван 🙂'), (40, null), (30, 'x'), (20, 'y')",
	);
});

const app = () => apps[0] as TestApp;
const query = 'project=partner&api_key=partner-key';
const get = (rest = '', headers: Record<string, string> = {}, on = app()) =>
	on.fetch(`/api/company_contacts.changes?${query}${rest}`, { headers });
async function read(rest = '', on = app()): Promise<ChangesBody> {
	const response = await get(rest, {}, on);
	expect(response.status).toBe(200);
	return (await response.json()) as ChangesBody;
}
const list = async () => (await app().fetch(`/api/company_contacts.list?${query}`)).text();
/** The cursor after all committed changes. */
async function lastCursor() {
	const [row] = await database.sql<[{ epoch: string; version: number }]>`
		select epoch, version::float8 as version from company_contacts_version`;
	return { ...row, id: lastId, began: 0, head: row.version };
}
/** Writes, and makes every process see it: a process queries the database when a cursor is newer than what it knows. */
async function write(statement: string): Promise<void> {
	await database.sql.unsafe(statement);
	const cursor = encodeCursor(await lastCursor());
	for (const each of apps) expect((await get(`&cursor=${cursor}`, {}, each)).status).toBe(200);
}
const namesOf = ({ changes }: ChangesBody) =>
	changes.map(({ deleted, contact }) => (deleted ? -1 : 1) * contact.bitrix_id);
const since = async () => `&cursor=${encodeCursor(await lastCursor())}`;

describe('200', () => {
	test('with a cursor the response has exactly the changes since, each contact once, in their order', async () => {
		const cursor = await since();
		await write("update company_contacts set name = 'first' where bitrix_id = 20");
		await write('delete from company_contacts where bitrix_id = 30');
		await write('insert into company_contacts (bitrix_id) values (10)');
		await write("update company_contacts set name = 'last' where bitrix_id = 20");
		const body = await read(cursor);
		expect(namesOf(body)).toEqual([-30, 10, 20]);
		expect(body.changes[0]?.contact).toEqual({ id: expect.any(Number), bitrix_id: 30 });
		expect(body.has_more).toBe(false);
		const { data } = JSON.parse(await list()) as { data: { bitrix_id: number }[] };
		expect(body.changes[2]?.contact).toEqual(data.find((contact) => contact.bitrix_id === 20));
	});

	test('a limit is exact, up to 1000, also between two contacts of one statement and from one replica to another', async () => {
		const cursor = await since();
		await write('insert into company_contacts (bitrix_id) select n from generate_series(1001, 2001) n');
		for (const limit of [1, 999, 1000]) {
			const first = await read(`${cursor}&limit=${limit}`);
			expect([first.changes.length, first.has_more]).toEqual([limit, true]);
			const second = await read(`&cursor=${first.cursor}`, apps[1]);
			expect([second.changes.length, second.has_more]).toEqual([1001 - limit, false]);
		}
		expect((await read(cursor)).changes).toHaveLength(1000);
	});
});

test('changes_responses_total counts each response, also one from memory', async () => {
	const served = async (source: string) => {
		const metrics = await (await app().fetch('/metrics')).text();
		return Number(new RegExp(`^changes_responses_total{source="${source}"} (\\d+)$`, 'm').exec(metrics)?.[1]);
	};
	const cursor = await since();
	await write("update company_contacts set name = 'counted' where bitrix_id = 20");
	const before = [await served('memory'), await served('database')] as const;
	for (let request = 0; request < 4; request++) await read(cursor);
	const end = await since();
	await read(end);
	await read(end);
	expect([(await served('memory')) - before[0], (await served('database')) - before[1]]).toEqual([5, 1]);
});

describe('304', () => {
	test('an entity tag matches until something changes', async () => {
		const cursor = await since();
		const etag = String((await get(cursor)).headers.get('etag'));
		const again = await get(cursor, { 'if-none-match': etag });
		expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', etag]);
		await write('delete from company_contacts where bitrix_id = 20');
		await expect.poll(async () => (await get(cursor, { 'if-none-match': etag })).status).toBe(200);
	});
});

describe('400', () => {
	test.each(['', 'x', '0', 'null', 'A'.repeat(71), '%00', 'é'])('cursor=%s', async (cursor) => {
		// The response without a cursor is in memory now, and is none for an empty one.
		await read();
		const problem = await expectProblem(await get(`&cursor=${cursor}`), 400, 'invalid_query');
		const message = expect.stringContaining('leave it out at the first request');
		expect(problem.errors).toEqual([{ field: 'cursor', message }]);
	});

	test('a cursor with any character replaced, removed or added', async () => {
		const { cursor } = await read();
		const wrong = [...cursor].map(
			(character, n) => cursor.slice(0, n) + (character === 'A' ? 'B' : 'A') + cursor.slice(n + 1),
		);
		for (const each of [...wrong, cursor.slice(1), cursor.slice(0, -1), `${cursor}A`, `${cursor}=`, ` ${cursor}`])
			await expectProblem(await get(`&cursor=${each}`), 400, 'invalid_query');
		await expectProblem(await get(`&cursor=${cursor}&cursor=${cursor}`), 400, 'invalid_query');
	});

	test.each(['version', 'id', 'began', 'head'])(
		'a cursor with an impossible %s, whose checksum is right',
		async (name) => {
			const forged = encodeCursor({ ...(await lastCursor()), version: 0, [name]: 2 ** 63 });
			await expectProblem(await get(`&cursor=${forged}`), 400, 'invalid_query');
		},
	);

	test.each(['', '0', '-1', '1001', '1e2', '1.0', '01', '%2B1', ' 1', 'x'])('limit=%s', async (limit) => {
		const problem = await expectProblem(await get(`&limit=${limit}`), 400, 'invalid_query');
		expect(problem.errors?.map(({ field }) => field)).toEqual(['limit']);
	});
});

describe('410', () => {
	/** Deletes old tombstones, as if all contacts had been deleted so many days ago. */
	const prune = (days = 63) =>
		database.sql.unsafe(`
			update company_contacts_changes set deleted_at = now() - interval '${days} days' where deleted_at is not null;
			select prune_company_contacts_tombstones()`);

	test('a cursor expires when tombstones after it were deleted', async () => {
		const before = await since();
		await write('delete from company_contacts where bitrix_id = 20');
		const after = await since();
		const firstPage = await read('&limit=1');
		await prune();
		// Nothing has changed for clients, so there was no notification.
		for (const each of apps) await expect.poll(async () => (await get(before, {}, each)).status).toBe(410);
		expect(namesOf(await read(after))).toEqual([]);
		// A reader who started after the deletion needs none of those tombstones, however low the first contacts are.
		expect(namesOf(await read(`&cursor=${firstPage.cursor}`))).toEqual([40, 30]);
	});

	test('a cursor between two deletions of one statement expires with their tombstones, 62 days after the statement', async () => {
		const before = await since();
		await write('delete from company_contacts where bitrix_id <> 50');
		const { cursor } = await read(`${before}&limit=1`);
		// The reader was away for 30 days before the first page, and for 30 after it.
		await prune(60);
		await write('insert into company_contacts (bitrix_id) values (60)');
		expect(namesOf(await read(`&cursor=${cursor}`))).toEqual([-30, -20, 60]);
		await prune();
		// The page in memory is still complete. Another one is read.
		await expectProblem(await get(`&cursor=${cursor}&limit=9`), 410, 'cursor_expired');
	});

	test('a cursor expires when the server has lost its changes', async () => {
		const now = await lastCursor();
		expect((await get(`&cursor=${encodeCursor(now)}`)).status).toBe(200);
		for (const lost of [{ version: now.version + 1 }, { head: now.version + 1 }, { began: now.version + 1 }])
			await expectProblem(await get(`&cursor=${encodeCursor({ ...now, ...lost })}`), 410, 'cursor_expired');
	});

	test('after pg_restore has recreated the tables in the same database, an earlier cursor expires, and no earlier list is sent', async () => {
		// What a dump has of the tables.
		await database.sql.unsafe(`
			create table dumped_version (like company_contacts_version including all);
			insert into dumped_version select * from company_contacts_version;
			create table dumped_changes as table company_contacts_changes;
			create table dumped_contacts as table company_contacts`);
		await write("update company_contacts set name = 'after the dump' where bitrix_id = 20");
		await expect.poll(list).toContain('after the dump');
		const cursor = await since();
		// One transaction. pg_restore creates the triggers after the rows, so none of them is executed.
		await database.sql.unsafe(`
			alter table company_contacts disable trigger user;
			delete from company_contacts;
			insert into company_contacts overriding system value select * from dumped_contacts;
			alter table company_contacts enable trigger user;
			delete from company_contacts_changes;
			insert into company_contacts_changes select * from dumped_changes;
			drop table company_contacts_version;
			alter table dumped_version rename to company_contacts_version;
			grant select on company_contacts_version to company_contacts_service`);
		// It takes the version that the reader has already seen.
		await database.sql`update company_contacts set name = 'after the restore' where bitrix_id = 30`;
		await expect.poll(list).toContain('after the restore');
		await expectProblem(await get(cursor), 410, 'cursor_expired');
	});
});
