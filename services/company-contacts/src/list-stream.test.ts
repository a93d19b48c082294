import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { openDatabase } from '@contacts/common/database/database.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { test, database as test_ } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { service } from './app.js';
import { type StreamLimits, type StreamRequest, streamList } from './list-stream.js';
import { openSeenPoll } from './testing/manual-poll.js';

const contacts = 20_000;
/** Streams every list. */
let streaming: TestApp;
/** Keeps all lists in memory. */
let fromMemory: TestApp;

test.beforeAll(async () => {
	for (const project of ['first', 'second', 'third', 'fourth', 'fifth'])
		await addProject(test_.sql, project, `${project}-key`);
	await fill();
	const environment = { RATE_LIMIT_PER_SECOND: '100000', RATE_LIMIT_BURST: '100000' };
	fromMemory = await startTestApp(service, test_.url, { environment });
	streaming = await startTestApp(service, test_.url, { environment: { ...environment, LIST_STREAM_MEGABYTES: '0' } });
});
async function fill(): Promise<void> {
	await test_.sql`truncate company_contacts`;
	await test_.sql`
		insert into company_contacts (bitrix_id, phone, company_ids, name, assigned_by_id, trouble_contact, perplexity_reason)
		select n, '+1202555' || lpad((n % 10000)::text, 4, '0'), case when n % 3 > 0 then array[n % 50 + 1, 9223372036854775807] end,
			'Контакт "№" \\ 👋 ' || chr(1 + n % 40) || n, n % 7 + 1, n % 20 = 0, repeat('reason ', n % 20)
		from generate_series(1, ${contacts}::int) n`;
}
afterAll(async () => {
	await streaming?.close();
	await fromMemory?.close();
});

const path = '/api/company_contacts.list?project=first&api_key=first-key';
const list = (app: TestApp, rest = '', headers: Record<string, string> = {}) => app.fetch(path + rest, { headers });
/** Statements under way on the connections of an application. */
const active = async (applicationName: string) =>
	(
		await test_.sql`
			select from pg_stat_activity
			where application_name = ${applicationName} and state = 'active' and datname = current_database()`
	).length;

/** A response whose body is not read automatically. */
async function open(project = 'first'): Promise<IncomingMessage> {
	const request = get(streaming.url + path.replaceAll('first', project));
	request.on('error', () => undefined);
	onTestFinished(() => void request.destroy());
	const [response] = (await once(request, 'response')) as [IncomingMessage];
	expect(response.statusCode).toBe(200);
	return response.on('error', () => undefined);
}

/** A stream that only the test reads, as company-contacts reads it from the database. */
const request = async (): Promise<StreamRequest> => ({
	companyId: undefined,
	encoding: 'identity',
	isAuthorized: () => true,
	projectId: 1,
	askedAt: performance.now(),
	poll: await openSeenPoll(),
});
const generous: StreamLimits = { stallTimeoutMs: 60_000, totalTimeoutMs: 60_000 };

describe('a streamed list', () => {
	test.each(['', '&company_id=7', '&company_id=999999'])('equals the list in memory: %s', async (rest) => {
		const [expected, streamed] = await Promise.all([list(fromMemory, rest), list(streaming, rest)]);
		const body = await streamed.text();
		expect(body === (await expected.text())).toBe(true);
		const { count, data } = JSON.parse(body);
		expect(data).toHaveLength(count);
		expect([streamed.status, streamed.headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8']);
		expect(streamed.headers.get('cache-control')).toBe('private, no-cache');
	});

	test.each([
		['gzip', gunzipSync],
		['br', brotliDecompressSync],
	])('is compressed with %s for a client that accepts it', async (encoding, decode) => {
		const response = await streaming.raw(
			`GET ${path} HTTP/1.0\r\nHost: a\r\nConnection: close\r\nAccept-Encoding: ${encoding}\r\n\r\n`,
		);
		const at = response.indexOf('\r\n\r\n');
		expect(response.slice(0, at)).toMatch(new RegExp(`\r\ncontent-encoding: ${encoding}\r\n`));
		expect(response.slice(0, at)).toMatch(new RegExp(`\r\netag: "[^"]+-${encoding}"\r\n`));
		expect(response.length).toBeLessThan(1_000_000);
		const decoded = decode(Buffer.from(response.slice(at + 4), 'latin1'));
		expect(String(decoded) === (await (await list(fromMemory)).text())).toBe(true);
	});

	test('is one snapshot, whatever changes while it is read', async () => {
		onTestFinished(fill);
		const before = await (await list(fromMemory)).text();
		const response = await open();
		await test_.sql`delete from company_contacts where bitrix_id % 2 = 0`;
		await test_.sql`update company_contacts set name = 'changed'`;
		expect((await text(response)) === before).toBe(true);
		expect(JSON.parse(await (await list(streaming)).text())).toMatchObject({ count: contacts / 2 });
	});

	test('has an entity tag that matches until the list changes', async () => {
		const tagOf = async () => {
			const response = await list(streaming);
			await response.text();
			return String(response.headers.get('etag'));
		};
		const first = await tagOf();
		expect(await tagOf()).toBe(first);
		const unchanged = await list(streaming, '', { 'if-none-match': first });
		expect([unchanged.status, unchanged.headers.get('etag'), await unchanged.text()]).toEqual([304, first, '']);
		const tags = [first];
		for (const change of [
			`update company_contacts set name = 'by hand' where bitrix_id = 5`,
			`update company_contacts set name = 'by hand again' where bitrix_id = 5`,
			'delete from company_contacts where bitrix_id = 6',
			'insert into company_contacts (bitrix_id) values (999999)',
		]) {
			await test_.sql.unsafe(change);
			tags.push(await tagOf());
		}
		expect(new Set(tags).size).toBe(5);
		expect((await list(streaming, '', { 'if-none-match': first })).status).toBe(200);
		await expect.poll(() => active('test')).toBe(0);
	});
});

describe('a client', () => {
	test('that disconnects in the middle of a list frees its connection', async () => {
		// More often than the limit of concurrent lists.
		for (let round = 0; round < 20; round++) {
			const response = await open();
			await once(response, 'readable');
			response.destroy();
			await expect.poll(() => active('test')).toBe(0);
		}
		expect((await list(streaming)).status).toBe(200);
	});

	test('that disconnects before the response has begun frees its connection', async () => {
		const lock = await test_.sql.reserve();
		await lock`begin`;
		await lock`lock table company_contacts`;
		// The query for the size runs first, and waits.
		const request = get(streaming.url + path).on('error', () => undefined);
		await expect.poll(() => active('test')).toBe(1);
		request.destroy();
		await lock`commit`;
		lock.release();
		await expect.poll(() => active('test')).toBe(0);
	});

	test('that reads slowly makes the service read slowly, and is disconnected in the end', async () => {
		const database = openDatabase({ url: test_.url, applicationName: 'slow', poolSize: 1 });
		onTestFinished(() => database.close());
		const unread = await streamList(database, await request(), generous);
		await expect.poll(() => unread.body.readableLength).toBeGreaterThan(256 * 1024);
		expect(await active('slow')).toBe(1);
		// Of more than 4 MB.
		expect(unread.body.readableLength).toBeLessThan(1_000_000);
		unread.body.destroy();
		const silent = await streamList(database, await request(), { ...generous, stallTimeoutMs: 300 });
		await expect.poll(() => String(silent.body.errored)).toMatch('read nothing for 300 ms');
		await expect.poll(() => active('slow')).toBe(0);
		// It reads a little again and again, each time within the first limit.
		const dripping = await streamList(database, await request(), { ...generous, totalTimeoutMs: 300 });
		const drip = setInterval(() => dripping.body.read(1), 10);
		onTestFinished(() => clearInterval(drip));
		await expect.poll(() => String(dripping.body.errored)).toMatch('did not read the list within 300 ms');
		await expect.poll(() => active('slow')).toBe(0);
	});

	test('whose key is revoked in the middle of a list gets no more of it', async () => {
		const response = await open('second');
		// Steadily, so that no other limit ends it. It would have the whole list in some ten seconds.
		const reading = setInterval(() => response.read(16_384), 50);
		onTestFinished(() => clearInterval(reading));
		await once(response, 'readable');
		await test_.sql`
			update api_keys set revoked_at = now() where project_id = (select id from projects where code = 'second')`;
		await expect.poll(() => active('test')).toBe(0);
		clearInterval(reading);
		await expect(text(response)).rejects.toThrow('aborted');
	});

	test('sees an aborted response, not a short list, when the database connection is lost', async () => {
		const response = await open();
		await once(response, 'readable');
		await test_.sql`
			select pg_terminate_backend(pid) from pg_stat_activity
			where application_name = 'test' and state = 'active' and datname = current_database()`;
		await expect(text(response)).rejects.toThrow('aborted');
		expect((await list(streaming)).status).toBe(200);
	});
});

test('a database that does not respond before the list has begun causes a 500', async () => {
	const environment = { LIST_STREAM_MEGABYTES: '0' };
	const app = await startTestApp(service, test_.url, { environment, database: { deadlineMs: 1500 } });
	onTestFinished(() => app.close());
	const lock = await test_.sql.reserve();
	await lock`begin`;
	await lock`lock table company_contacts`;
	await expectProblem(await list(app), 500, 'database_error');
	await lock`commit`;
	lock.release();
	await expect.poll(async () => (await list(app)).status).toBe(200);
});
