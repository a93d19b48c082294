import { once } from 'node:events';
import { connect } from 'node:net';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { service } from './app.js';

// A process that stood still can't know whether the callers of the requests in its sockets still wait.

let app: TestApp;
/** The clock of the process, in milliseconds. */
let now = 0;

test.beforeAll(async () => {
	await addProject(database.sql, 'bot', 'bot-key');
	// The clock that the service's statements see. Rows that a test writes have the time of the server itself.
	await database.sql.unsafe(`
		create schema shifted;
		create table shifted.clock (ahead interval not null);
		insert into shifted.clock values ('0');
		create function shifted.clock_timestamp() returns timestamptz language sql volatile security definer
			as 'select pg_catalog.clock_timestamp() + ahead from shifted.clock';
		grant usage on schema shifted to public;
		alter role personal_contacts_service in database ${new URL(database.url).pathname.slice(1)}
			set search_path = shifted, pg_catalog, public`);
	app = await startTestApp(service, database.url, { clock: () => now, database: { poolSize: 1 } });
});
afterAll(() => app?.close());

const post = (path: string, body: object) =>
	app.fetch(`/api/${path}?project=bot&api_key=bot-key`, {
		method: 'POST',
		headers: { 'content-type': 'application/json' },
		body: JSON.stringify(body),
	});
const upsert = (chat_id: number, name: string) => post('personal_contacts', { chat_id, name });
const report = (chat_id: number, active: boolean) => post('direct_subscriptions', { chat_id, active });

const names = async (chat: number) =>
	(await database.sql`select name from personal_contacts where chat_id = ${chat}`).map(({ name }) => name);
const isSubscribed = async (chat: number) =>
	(await database.sql`select from direct_subscriptions where chat_id = ${chat} and ended_at is null`).length === 1;

/** What a pause of so many seconds changes, by the clock that shows it. */
const pauses = {
	'a stopped process': async (seconds: number) => {
		now += seconds * 1000;
	},
	// Its monotonic clock stands still, too.
	'a paused machine': (seconds: number) =>
		database.sql`update shifted.clock set ahead = ahead + make_interval(secs => ${seconds})`,
};

test.each(Object.entries(pauses))(
	'after %s a write that may have waited is refused, and never saved; a second later all are saved again',
	async (name, pause) => {
		const chat = name.length;
		await expect.poll(async () => (await upsert(chat, 'first')).status).toBe(200);
		await expect.poll(async () => (await report(chat + 1, false)).status).toBe(200);
		await pause(8);
		const refused = await upsert(chat, 'old');
		expect(refused.headers.get('retry-after')).toBe('1');
		await expectProblem(refused, 503, 'overloaded');
		expect(app.log.join('')).toContain('"reason":"stood_still"');
		expect(await names(chat)).toEqual(['first']);
		await expect.poll(async () => (await upsert(chat, 'new')).status).toBe(200);

		await pause(8);
		await expectProblem(await report(chat + 1, true), 503, 'overloaded');
		expect(await isSubscribed(chat + 1)).toBe(false);
		await expect.poll(async () => (await report(chat + 1, true)).status).toBe(200);
		expect(await names(chat)).toEqual(['new']);
	},
);

test('a paused machine is found by a new connection, too', async () => {
	await expect.poll(async () => (await upsert(300, 'first')).status).toBe(200);
	await pauses['a paused machine'](8);
	await database.sql`
		select pg_terminate_backend(pid) from pg_stat_activity
		where usename = 'personal_contacts_service' and datname = current_database()`;
	// A 500 if it was sent on the lost connection before.
	expect([500, 503]).toContain((await upsert(300, 'old')).status);
	expect(await names(300)).toEqual(['first']);
	await expect.poll(async () => (await upsert(300, 'new')).status).toBe(200);
});

test.each([
	['personal_contacts', '{"chat_id":200}'],
	['direct_subscriptions', '{"chat_id":200,"active":true}'],
])(
	'a write of %s whose caller has reset the connection is not saved, although the system still delivers it',
	async (path, body) => {
		const socket = connect(Number(new URL(app.url).port), '127.0.0.1');
		await once(socket, 'connect');
		socket.write(
			`POST /api/${path}?project=bot&api_key=bot-key HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
		);
		// The service is in this process, and reads nothing in between.
		socket.resetAndDestroy();
		await expect
			.poll(() => app.log.join(''))
			.toContain(`/api/${path}","status":503,"code":"overloaded","reason":"given_up"`);
		expect((await upsert(201, 'later')).status).toBe(200);
		expect((await report(202, true)).status).toBe(200);
		expect(await database.sql`select from ${database.sql(path)} where chat_id = 200`).toHaveLength(0);
	},
);

test('a pause that the caller waits for refuses nothing', async () => {
	await pauses['a stopped process'](2);
	expect((await upsert(100, 'in time')).status).toBe(200);
});
