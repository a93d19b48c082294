import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { openDatabase } from '@contacts/common/database/database.js';
import { DatabaseBusyError } from '@contacts/common/database/errors.js';
import { type Encoding, sendRepresentation } from '@contacts/common/http/representations.js';
import { createServer } from '@contacts/common/http/server.js';
import { createLogger } from '@contacts/common/observability/logger.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { test, database as test_ } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished, vi } from 'vitest';
import { service } from './app.js';
import { streamList } from './list-stream.js';
import { openSeenPoll } from './testing/manual-poll.js';

/** Streams every list. */
let app: TestApp;

test.beforeAll(async () => {
	for (const project of ['first', 'second', 'third', 'fourth', 'fifth']) {
		await addProject(test_.sql, project, `${project}-key`);
	}
	// About 10 MB: more than the buffers of both ends hold.
	await test_.sql`
		insert into company_contacts (bitrix_id, perplexity_reason) select n, repeat('x', 500) from generate_series(1, 20000) n`;
	app = await startTestApp(service, test_.url, { environment: { LIST_STREAM_MEGABYTES: '0' } });
});
afterAll(() => app?.close());

const pathOf = (project: string) => `/api/company_contacts.list?project=${project}&api_key=${project}-key`;

/** Reads a list to its end and returns only the status. */
async function statusOf(project: string): Promise<number> {
	const response = await app.fetch(pathOf(project));
	await response.arrayBuffer();
	return response.status;
}

/** A response whose body is not read. */
async function open(project: string): Promise<IncomingMessage> {
	const request = get(app.url + pathOf(project));
	request.on('error', () => undefined);
	onTestFinished(() => void request.destroy());
	const [response] = (await once(request, 'response')) as [IncomingMessage];
	expect(response.statusCode).toBe(200);
	return response.on('error', () => undefined);
}

/** Waits until no list is being read. */
const untilIdle = () =>
	expect.poll(async () => (await app.registry.getSingleMetric('database_cursors')?.get())?.values[0]?.value).toBe(0);

test('a project reads one list at a time: its next request gets a 503, and other projects are served', async () => {
	await untilIdle();
	const slow = await open('first');
	const second = await app.fetch(pathOf('first'));
	expect(second.headers.get('retry-after')).toBe('1');
	await expectProblem(second, 503, 'overloaded');
	expect(await statusOf('second')).toBe(200);
	slow.destroy();
	await expect.poll(() => statusOf('first')).toBe(200);
});

test('a project that reads a list still gets a 304 for a list that it has', async () => {
	await untilIdle();
	const slow = await open('first');
	const etag = String(slow.headers.etag);
	const withTag = (tag: string) =>
		app.fetch(pathOf('first'), { headers: { 'if-none-match': tag, 'accept-encoding': 'identity' } });
	const known = await withTag(etag);
	expect([known.status, known.headers.get('etag'), await known.text()]).toEqual([304, etag, '']);
	await expectProblem(await withTag('"other"'), 503, 'overloaded');
});

test('a request gets a 503 while four lists are being sent, and is served when one of them is done', async () => {
	await untilIdle();
	const open_ = await Promise.all(['first', 'second', 'third', 'fourth'].map(open));
	const fifth = await app.fetch(pathOf('fifth'));
	expect(fifth.headers.get('retry-after')).toBe('1');
	await expectProblem(fifth, 503, 'overloaded');
	// Short statements have their own connections.
	expect((await app.fetch('/health/ready')).status).toBe(200);
	open_[0]?.destroy();
	await expect.poll(() => statusOf('fifth')).toBe(200);
});

describe('a list that fails before its first byte', () => {
	/**
	 * The response with a list that is read slowly.
	 *
	 * @param after runs when a batch was processed
	 */
	async function responseOf(
		encoding: Encoding,
		isAuthorized: () => boolean,
		after: () => Promise<unknown> = async () => undefined,
	): Promise<Response> {
		const database = openDatabase({ url: test_.url, applicationName: 'failing', poolSize: 1 });
		onTestFinished(() => database.close());
		const readInBatches: typeof database.readInBatches = (statement, _rows, onBatch, options) =>
			database.readInBatches(
				statement,
				10,
				async (batch) => {
					const goesOn = await onBatch(batch);
					await after();
					return goesOn;
				},
				options,
			);
		const poll = await openSeenPoll();
		const server = await createServer({ logger: createLogger({ name: 'failing', level: 'silent' }) });
		onTestFinished(() => server.close());
		server.get('/', async (request, reply) => {
			const options = { companyId: undefined, projectId: 1, askedAt: performance.now(), poll };
			const list = await streamList({ ...database, readInBatches }, { ...options, encoding, isAuthorized });
			sendRepresentation(request, reply.header('contacts-synced-at', 'now'), list);
			return reply;
		});
		const response = await fetch(await server.listen({ host: '127.0.0.1', port: 0 }), {
			headers: { 'accept-encoding': encoding },
		});
		for (const name of ['content-encoding', 'etag', 'contacts-synced-at'])
			expect([name, response.headers.get(name)]).toEqual([name, null]);
		return response;
	}

	test.each<Encoding>(['identity', 'gzip', 'br'])('is a 401 when its key was revoked, with %s', async (encoding) => {
		await expectProblem(await responseOf(encoding, () => false), 401, 'unauthorized');
	});

	test('is a 500 when the database connection is lost while Brotli has no output yet', async () => {
		const disconnect = () =>
			test_.sql`
				select pg_terminate_backend(pid) from pg_stat_activity
				where application_name = 'failing' and datname = current_database()`;
		const response = await responseOf('br', () => true, disconnect);
		expect(response.headers.get('retry-after')).toBe('2');
		await expectProblem(response, 500, 'database_error');
	});
});

test('readers beyond the limit are refused, not queued', async () => {
	const database = openDatabase({ url: test_.url, applicationName: 'few', poolSize: 1, maxReaders: 1 });
	onTestFinished(() => database.close());
	const poll = await openSeenPoll();
	const read = () =>
		streamList(database, {
			companyId: undefined,
			encoding: 'identity',
			isAuthorized: () => true,
			projectId: 1,
			askedAt: performance.now(),
			poll,
		});
	const { body } = await read();
	await expect(read()).rejects.toThrow(DatabaseBusyError);
	body.destroy();
	// Once its connection is free, the next reader is served.
	const next = await vi.waitFor(read, { timeout: 20_000 });
	expect(JSON.parse(await text(next.body)).count).toBeGreaterThan(0);
});
