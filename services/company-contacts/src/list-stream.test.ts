import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { type Database, openDatabase } from '@contacts/common/database/database.js';
import { startDeadline } from '@contacts/common/database/deadline.js';
import { DatabaseError } from '@contacts/common/database/errors.js';
import { type Encoding, sendRepresentation } from '@contacts/common/http/representations.js';
import { createServer } from '@contacts/common/http/server.js';
import { createLogger } from '@contacts/common/observability/logger.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { createTestDatabase, templateDatabase } from '@contacts/testing/database.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { test, database as test_ } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { service } from './app.js';
import { type StreamRequest, type StreamSource, streamList } from './list-stream.js';
import { openSeenPoll } from './testing/manual-poll.js';

const projects = ['first', 'second', 'third', 'fourth', 'fifth'] as const;
type Project = (typeof projects)[number];

/** Streams every list. */
let streaming: TestApp;
/** Keeps all lists in memory. */
let fromMemory: TestApp;

test.beforeAll(async () => {
	for (const project of projects) await addProject(test_.sql, project, `${project}-key`);
	// About 10 MB: more than the buffers of both ends hold.
	await test_.sql`
		insert into company_contacts (bitrix_id, phone, company_ids, name, assigned_by_id, trouble_contact, perplexity_reason)
		select n, '+1202555' || lpad((n % 10000)::text, 4, '0'), case when n % 3 > 0 then array[n % 50 + 1, 9223372036854775807] end,
			'Контакт "№" \\ 👋 ' || chr(1 + n % 40) || n, n % 7 + 1, n % 20 = 0, repeat('reason ', 40 + n % 20)
		from generate_series(1, 20000) n`;
	await test_.sql`update crm_sync_state set last_success_at = '2025-11-04T09:30:00Z'`;
	const environment = { RATE_LIMIT_PER_SECOND: '100000', RATE_LIMIT_BURST: '100000' };
	fromMemory = await startTestApp(service, test_.url, { environment });
	streaming = await startTestApp(service, test_.url, { environment: { ...environment, LIST_STREAM_MEGABYTES: '0' } });
});
afterAll(() => Promise.all([streaming?.close(), fromMemory?.close()]));

const pathOf = (project: Project) => `/api/company_contacts.list?project=${project}&api_key=${project}-key`;
const list = (rest = '', headers: Record<string, string> = {}, app = streaming) =>
	app.fetch(pathOf('first') + rest, { headers });

/** Reads a list to its end and returns only the status. */
async function statusOf(project: Project): Promise<number> {
	const response = await streaming.fetch(pathOf(project));
	await response.arrayBuffer();
	return response.status;
}

/** A response whose body is not read automatically. */
async function open(project: Project = 'first'): Promise<IncomingMessage> {
	const request = get(streaming.url + pathOf(project));
	request.on('error', () => undefined);
	onTestFinished(() => void request.destroy());
	const [response] = (await once(request, 'response')) as [IncomingMessage];
	expect(response.statusCode).toBe(200);
	return response.on('error', () => undefined);
}

/** Waits until no list is being read. */
const untilIdle = () => expect.poll(() => streaming.database.reading).toBe(0);
test.beforeEach(untilIdle);

const killReaders = (applicationName: string) => test_.sql`
	select pg_terminate_backend(pid) from pg_stat_activity
	where application_name = ${applicationName} and state = 'active' and datname = current_database()`;

/** Locks the table until the returned function is called. */
async function lockTable(): Promise<() => Promise<void>> {
	const lock = await test_.sql.reserve();
	await lock`begin`;
	await lock`lock table company_contacts`;
	return async () => {
		await lock`commit`;
		lock.release();
	};
}

const clock = () => performance.now();

/** What a stream needs, with a separate database. */
async function openSource(
	rest: Partial<StreamSource> = {},
	wrap?: (database: Database) => Partial<Database>,
): Promise<StreamSource> {
	const database = openDatabase({ url: test_.url, applicationName: 'source', poolSize: 1, clock });
	onTestFinished(() => database.close());
	const poll = await openSeenPoll();
	const keyRing = { isLive: () => true };
	return { database: wrap === undefined ? database : { ...database, ...wrap(database) }, poll, keyRing, ...rest };
}

let lastProject = 1000;
const request = (rest: Partial<StreamRequest> = {}): StreamRequest => ({
	companyId: undefined,
	encoding: 'identity',
	project: { id: lastProject++, keyId: 1, code: 'any', isSandbox: false },
	deadline: startDeadline(4000),
	...rest,
});

describe('a streamed list', () => {
	test.each(['', '&company_id=7', '&company_id=999999'])('equals the list in memory: %s', async (rest) => {
		const [expected, streamed] = await Promise.all([list(rest, {}, fromMemory), list(rest)]);
		const body = await streamed.text();
		expect(body === (await expected.text())).toBe(true);
		const { count, data } = JSON.parse(body);
		expect(data).toHaveLength(count);
		for (const name of ['content-type', 'cache-control', 'contacts-synced-at'])
			expect(streamed.headers.get(name)).toBe(expected.headers.get(name));
	});

	test.each([
		['gzip', gunzipSync],
		['br', brotliDecompressSync],
	])('is compressed with %s for a client that accepts it', async (encoding, decode) => {
		const response = await streaming.raw(
			`GET ${pathOf('first')} HTTP/1.0\r\nHost: a\r\nConnection: close\r\nAccept-Encoding: ${encoding}\r\n\r\n`,
		);
		const at = response.indexOf('\r\n\r\n');
		expect(response.slice(0, at)).toMatch(new RegExp(`\r\ncontent-encoding: ${encoding}\r\n`));
		expect(response.slice(0, at)).toMatch(new RegExp(`\r\netag: "[^"]+-${encoding}"\r\n`));
		expect(response.length).toBeLessThan(1_000_000);
		const decoded = decode(Buffer.from(response.slice(at + 4), 'latin1'));
		expect(String(decoded) === (await (await list('', {}, fromMemory)).text())).toBe(true);
	});

	test('has an entity tag that matches until the list changes', async () => {
		const response = await list('&company_id=8');
		await response.text();
		const tag = String(response.headers.get('etag'));
		const unchanged = await list('&company_id=8', { 'if-none-match': tag });
		expect([unchanged.status, unchanged.headers.get('etag'), await unchanged.text()]).toEqual([304, tag, '']);
		await test_.sql`update company_contacts set name = 'by hand' where bitrix_id = 7`;
		const again = async () => (await list('&company_id=8', { 'if-none-match': tag })).text();
		await expect.poll(again).toContain('by hand');
	});

	test('comes from the server that the poll has found: from another one it is read again, and never sent', async () => {
		const former = await createTestDatabase(templateDatabase);
		const other = openDatabase({ url: former.url, applicationName: 'former', poolSize: 1, clock });
		onTestFinished(async () => {
			await other.close();
			await former.drop();
		});
		let isRecovered = true;
		const attempts: boolean[] = [];
		const source = await openSource({}, ({ readInBatches }) => ({
			readInBatches(...reading) {
				const [, , { isOnNew }] = reading;
				attempts.push(isOnNew);
				return isOnNew && isRecovered ? readInBatches(...reading) : other.readInBatches(...reading);
			},
		}));
		const { body } = await streamList(source, request({ companyId: '8' }));
		expect(await text(body)).toBe(await (await list('&company_id=8', {}, fromMemory)).text());
		isRecovered = false;
		await expect(streamList(source, request())).rejects.toThrow(DatabaseError);
		expect([attempts, other.reading]).toEqual([[false, true, false, true], 0]);
	});
});

describe('a client', () => {
	test('that disconnects in the middle of a list frees its connection', async () => {
		// More often than the limit of concurrent lists.
		for (let round = 0; round < 6; round++) {
			const response = await open();
			await once(response, 'readable');
			response.destroy();
			await untilIdle();
		}
		expect(await statusOf('first')).toBe(200);
	});

	test('that disconnects before the response has begun frees its connection', async () => {
		const unlock = await lockTable();
		const early = get(streaming.url + pathOf('first')).on('error', () => undefined);
		// The first time it waits for the size of the list, later for the list.
		await expect.poll(() => streaming.database.connections.inUse + streaming.database.reading).toBe(1);
		early.destroy();
		await unlock();
		await expect.poll(() => streaming.database.connections.inUse + streaming.database.reading).toBe(0);
	});

	test('that reads slowly makes the service read slowly, and is disconnected in the end', async () => {
		const source = await openSource();
		const unread = await streamList(source, request());
		unread.body.read(1);
		await expect.poll(() => unread.body.readableLength).toBeGreaterThan(256 * 1024);
		expect(source.database.reading).toBe(1);
		expect(unread.body.readableLength).toBeLessThan(1_000_000);
		unread.body.destroy();
		await expect.poll(() => source.database.reading).toBe(0);
		const dripping = await streamList(source, request(), 100);
		const drip = setInterval(() => dripping.body.read(1), 10);
		onTestFinished(() => clearInterval(drip));
		await expect.poll(() => String(dripping.body.errored)).toMatch('did not read the list within 100 ms');
		await expect.poll(() => source.database.reading).toBe(0);
	});

	test('whose key is revoked in the middle of a list gets no more of it', async () => {
		const response = await open('second');
		// Steadily, so that no other limit ends it. It would have the whole list in more than half a minute.
		const reading = setInterval(() => response.read(16_384), 50);
		onTestFinished(() => clearInterval(reading));
		await once(response, 'readable');
		await test_.sql`
			update api_keys set revoked_at = now() where project_id = (select id from projects where code = 'second')`;
		await untilIdle();
		clearInterval(reading);
		await expect(text(response)).rejects.toThrow('aborted');
	});

	test('whose key can’t be confirmed gets nothing', async () => {
		const source = await openSource();
		const poll = { ...source.poll, confirm: () => Promise.reject(new DatabaseError('no poll')) };
		const { body } = await streamList({ ...source, poll }, request());
		await expect(text(body)).rejects.toThrow(DatabaseError);
	});

	test('sees an aborted response, not a short list, when the database connection is lost', async () => {
		const response = await open();
		await once(response, 'readable');
		await killReaders('test');
		await expect(text(response)).rejects.toThrow('aborted');
		expect(await statusOf('first')).toBe(200);
	});
});

describe('a list that fails before its first byte', () => {
	/** The response with such a list. */
	async function responseOf(encoding: Encoding, source: StreamSource): Promise<Response> {
		const server = await createServer({ logger: createLogger({ name: 'failing', level: 'silent' }) });
		onTestFinished(() => server.close());
		server.get('/', async (received, reply) => {
			sendRepresentation(received, reply, await streamList(source, request({ encoding })));
			return reply;
		});
		const address = await server.listen({ host: '127.0.0.1', port: 0 });
		const response = await fetch(address, { headers: { 'accept-encoding': encoding } });
		for (const name of ['content-encoding', 'etag']) expect([name, response.headers.get(name)]).toEqual([name, null]);
		return response;
	}

	test.each<Encoding>(['identity', 'br'])('is a 401 when its key was revoked, with %s', async (encoding) => {
		const source = await openSource();
		const keyRing = { ...source.keyRing, isLive: () => false };
		await expectProblem(await responseOf(encoding, { ...source, keyRing }), 401, 'unauthorized');
	});

	test('is a 500 when the database connection is lost while Brotli has no output yet', async () => {
		const source = await openSource({}, ({ readInBatches }) => ({
			async *readInBatches(statement, _rows, options) {
				for await (const batch of readInBatches(statement, 10, options)) {
					yield batch;
					await killReaders('source');
				}
			},
		}));
		const response = await responseOf('br', source);
		expect(response.headers.get('retry-after')).toBe('2');
		await expectProblem(response, 500, 'database_error');
	});

	test('fails at the deadline of its request, however late its statements were sent', async () => {
		const source = await openSource();
		const unlock = await lockTable();
		const read = (timeoutMs: number) =>
			streamList(source, request({ companyId: '7', deadline: startDeadline(timeoutMs) }));
		// Asked just now, a request may wait for longer.
		const early = read(source.database.deadlineMs);
		const late = read(200).catch((error: unknown) => error);
		expect(await Promise.race([early, late])).toBeInstanceOf(DatabaseError);
		await unlock();
		expect(JSON.parse(await text((await early).body)).count).toBeGreaterThan(0);
	});
});

describe('503', () => {
	test('for a second list of a project, unless the project has this list; other projects are served', async () => {
		const slow = await open();
		const second = await list();
		expect(second.headers.get('retry-after')).toBe('1');
		await expectProblem(second, 503, 'overloaded');
		const etag = String(slow.headers.etag);
		const known = await list('', { 'if-none-match': etag, 'accept-encoding': 'identity' });
		expect([known.status, known.headers.get('etag'), await known.text()]).toEqual([304, etag, '']);
		expect(await statusOf('third')).toBe(200);
		slow.destroy();
		await expect.poll(() => statusOf('first')).toBe(200);
	});

	test('while four lists are being sent, until one of them is done', async () => {
		const [slow] = await Promise.all((['first', 'third', 'fourth', 'fifth'] as const).map(open));
		await addProject(test_.sql, 'sixth', 'sixth-key');
		const sixth = () => statusOf('sixth' as Project);
		await expect.poll(sixth).toBe(503);
		// Short statements have their own connections.
		expect((await streaming.fetch('/health/ready')).status).toBe(200);
		slow?.destroy();
		await expect.poll(sixth).toBe(200);
	});
});

test('a list is one snapshot, whatever changes while it is read', async () => {
	const before = await (await list('', {}, fromMemory)).text();
	const response = await open();
	await test_.sql`delete from company_contacts where bitrix_id % 2 = 0`;
	await test_.sql`update company_contacts set name = 'changed'`;
	expect((await text(response)) === before).toBe(true);
	expect(JSON.parse(await (await list()).text())).toMatchObject({ count: 10_000 });
});
