import type { Fault } from '@contacts/testing/bitrix24/stand-in.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, afterEach, beforeEach, describe, expect } from 'vitest';
import {
	atLastPage,
	type ExpectedRow,
	error,
	interrupt,
	makeContact,
	makeContacts,
	mirroredIds,
	openSync,
	readMirror,
	type SyncHarness,
	storeEvents,
} from './testing/harness.js';

let sync: SyncHarness;
let before: ExpectedRow[];

// One CRM: none of these failures leaves anything behind.
test.beforeAll(async () => {
	sync = await openSync({ contacts: makeContacts(130) });
});
afterAll(() => sync?.close());
beforeEach(async () => {
	await sync.synchroniser.run({ full: true });
	before = await readMirror();
	expect(before).toHaveLength(sync.ids().length);
	expect(await sync.state()).toMatchObject({ blocked_by: null, blocked_until: null });
	sync.standIn.requests.length = 0;
});
afterEach(() => sync.standIn.faults.clear());

const full = () => sync.synchroniser.run({ full: true });

test.each<[string, Fault]>([
	['500 with INTERNAL_SERVER_ERROR', error('INTERNAL_SERVER_ERROR', 500)],
	['ERROR_UNEXPECTED_ANSWER', error('ERROR_UNEXPECTED_ANSWER', 500)],
	['a 500 with a code that nobody knows', error('SOMETHING_NEW', 500)],
	['HTML with 502', { kind: 'html', status: 502 }],
	['HTML with 200', { kind: 'html', status: 200 }],
	['HTML with 408', { kind: 'html', status: 408 }],
	['too many requests, as HTML with 429', { kind: 'html', status: 429 }],
	['truncated JSON', { kind: 'truncated-json' }],
	['200 without a result', { kind: 'no-result' }],
	['rows without an ID', { kind: 'with-fields', values: { id: undefined } }],
	['a connection that breaks in the middle', { kind: 'cut-off' }],
	['a connection that is reset', { kind: 'reset' }],
	['no response at all', { kind: 'hang' }],
	['too many requests, as 503', error('QUERY_LIMIT_EXCEEDED', 503)],
	['too many requests, as 200', error('QUERY_LIMIT_EXCEEDED', 200)],
])('a temporary error is retried, and the run is complete: %s', async (_, fault) => {
	if (fault.kind === 'hang') await sync.restart({ responseTimeoutMs: 300 });
	sync.standIn.add(makeContact(131));
	sync.standIn.remove(sync.ids()[0] ?? 0);
	sync.standIn.faults.next(fault, { method: 'crm.item.list', times: 3 });
	expect(await full()).toMatchObject({ created: 1, deleted: 1 });
	expect(await mirroredIds()).toEqual(sync.ids());
	if (fault.kind === 'hang') await sync.restart();
});

describe('an error ends the run without changes', () => {
	afterEach(async () => {
		expect(await readMirror()).toEqual(before);
		for (const id of removed.splice(0)) sync.standIn.restore(id);
	});
	const removed: number[] = [];
	beforeEach(() => {
		removed.push(...sync.ids().slice(0, 5));
		for (const id of removed) sync.standIn.remove(id);
	});

	test.each<[Fault, string]>([
		[{ kind: 'html', status: 200 }, 'not_json_200'],
		[{ kind: 'html', status: 503 }, 'not_json_503'],
		[{ kind: 'html', status: 429 }, 'not_json_429'],
		[{ kind: 'reset' }, 'network'],
		[error('QUERY_LIMIT_EXCEEDED'), 'QUERY_LIMIT_EXCEEDED'],
	])('after the last attempt: %j', async (fault, code) => {
		sync.standIn.faults.always(fault);
		await expect(full()).rejects.toMatchObject({ code });
		expect((await sync.state()).blocked_by).toBe(code);
	});

	test.each([400, 401, 403, 404, 410])(
		'after one request, where a page says with %d that somebody has to fix something',
		async (status) => {
			sync.standIn.faults.always({ kind: 'html', status });
			await expect(full()).rejects.toMatchObject({ code: `not_json_${status}`, kind: 'stop' });
			expect(sync.standIn.requests).toHaveLength(1);
			const { blocked_by: blocked, blocked_until: until } = await sync.state();
			expect([blocked, Number(until) > sync.clock.now()]).toEqual([`not_json_${status}`, true]);
		},
	);

	test.each([
		['OVERLOAD_LIMIT', 401],
		['OVERLOAD_LIMIT', 503],
		['OVERLOAD_LIMIT', 200],
		['INVALID_CREDENTIALS', 403],
		['PORTAL_DELETED', 500],
		['payment_required', 500],
		['Authorization_Error', 500],
		['user_access_error', 500],
		['ACCESS_DENIED', 401],
		['SOMETHING_NEW', 400],
		['constructor', 400],
	])('after one request, where somebody has to fix something: %s as %d', async (code, status) => {
		sync.standIn.faults.always({ ...error(code, status), description: 'Доступ запрещён' } as Fault);
		await expect(full()).rejects.toMatchObject({ code });
		expect(sync.standIn.requests).toHaveLength(1);
		const { blocked_by: blocked, blocked_until: until } = await sync.state();
		expect([blocked, Number(until) > sync.clock.now()]).toEqual([code, true]);
	});

	test('after one request, where the CRM prints something in front of its data', async () => {
		const text = '<br />\n<b>Warning</b>: Undefined variable {"x"} in <b>/home/bitrix/www/init.php</b>\n';
		sync.standIn.faults.always({ kind: 'text-before-json', text });
		await expect(full()).rejects.toMatchObject({ code: 'text_before_json', kind: 'stop' });
		expect(sync.standIn.requests).toHaveLength(1);
	});

	test('where the CRM has moved: the redirect is not followed, and the new host is reported', async () => {
		sync.standIn.faults.always({ kind: 'redirect', to: 'https://new.example.test/rest/1/secret/crm.item.list.json' });
		await expect(full()).rejects.toMatchObject({ code: 'portal_moved_to_new.example.test' });
		expect(sync.standIn.requests.map(({ status }) => status)).toEqual([302]);
	});

	test('where a method has used up its operating time for eleven minutes, with the cursor saved', async () => {
		sync.standIn.faults.always(error('OPERATION_TIME_LIMIT', 429), atLastPage);
		const sent: number[] = [];
		const undo = sync.standIn.onRequest((request) => void (atLastPage.when(request) && sent.push(sync.clock.now())));
		await expect(full()).rejects.toMatchObject({ code: 'OPERATION_TIME_LIMIT', kind: 'pause' });
		undo();
		// Each half minute.
		expect(sent.map((at) => at - (sent[0] ?? 0))).toEqual(Array.from({ length: 23 }, (_, n) => n * 30_000));
		const { full_cursor: cursor, blocked_by: blocked, blocked_until: until } = await sync.state();
		expect(cursor).toBeGreaterThan(0);
		expect([blocked, Number(until) > sync.clock.now()]).toEqual(['OPERATION_TIME_LIMIT', true]);
		sync.clock.advance(660_000);
	});

	test('with a code that is a long text, which is neither stored nor logged', async () => {
		sync.standIn.faults.always(error(`\u001b[31m${'x'.repeat(1_000_000)}`, 400));
		await expect(full()).rejects.toMatchObject({ code: 'unknown_code' });
		const [run] = await database.sql`select outcome from crm_sync_runs order by id desc limit 1`;
		expect([run?.outcome, (await sync.state()).blocked_by]).toEqual(['unknown_code', 'unknown_code']);
		expect(Math.max(...sync.log.map((line) => line.length))).toBeLessThan(10_000);
	});
});

describe('too many requests and a used-up operating time, in one batch', () => {
	let missing: number[];

	beforeEach(() => {
		missing = sync.ids().slice(0, 2);
		for (const id of missing) sync.standIn.remove(id);
		for (const code of ['QUERY_LIMIT_EXCEEDED', 'OPERATION_TIME_LIMIT'])
			sync.standIn.faults.next(error(code), { method: 'crm.item.get', inBatch: true });
	});

	test('are waited for by a run', async () => {
		expect(await full()).toMatchObject({ deleted: 2 });
	});

	test('leave the events in the inbox until the end of the pause, without another request for them', async () => {
		await storeEvents(...missing);
		const paused = await sync.synchroniser.events().catch((failure: unknown) => failure);
		expect(paused).toMatchObject({ kind: 'pause', until: sync.clock.now() + 30_000 });
		await expect(sync.synchroniser.events()).rejects.toMatchObject({ kind: 'pause' });
		expect(sync.standIn.requests.filter(({ method }) => method === 'batch')).toHaveLength(1);
		expect((await sync.state()).blocked_by).toBe(null);
		sync.clock.advance(600_000);
		expect(await sync.synchroniser.events()).toMatchObject({ deleted: 2 });
	});
});

test('a used-up operating time of the batch itself delays no run by the events that wait', async () => {
	await storeEvents(...sync.ids().slice(0, 2));
	sync.standIn.faults.next(error('OPERATION_TIME_LIMIT'), { method: 'batch', inBatch: false });
	const begun = sync.clock.now();
	await expect(sync.synchroniser.events()).rejects.toMatchObject({ kind: 'pause' });
	expect(sync.clock.now() - begun).toBeLessThan(30_000);
	sync.clock.advance(600_000);
	await sync.synchroniser.events();
});

test('the CRM’s rate limit is never reached, even with a restart at every page', async () => {
	for (let round = 0; round < 12; round++) {
		await interrupt(sync, { full: true });
		await sync.restart();
	}
	await full();
	expect(sync.standIn.blockedRequests).toBe(0);
	expect(sync.standIn.highestRequestCount).toBeLessThanOrEqual(50);
});

test('the webhook’s secret is in no log line, error or row', async () => {
	const secret = new URL(sync.standIn.webhookUrl).pathname.split('/')[3] ?? 'none';
	const errors: string[] = [];
	const faults: Fault[] = [
		error('OVERLOAD_LIMIT'),
		{ kind: 'reset' },
		{ kind: 'hang' },
		{ kind: 'html', status: 502 },
		{ kind: 'redirect' },
		error('NO_AUTH_FOUND'),
	];
	await sync.restart({ responseTimeoutMs: 300 });
	for (const fault of faults) {
		sync.standIn.faults.always(fault);
		await full().catch((failure: Error) =>
			errors.push(String(failure.stack), JSON.stringify(failure), String(failure.cause)),
		);
		sync.standIn.faults.clear();
	}
	const rows =
		await database.sql`select s::text, q::text, r::text from crm_sync_state s, crm_sync_requests q, crm_sync_runs r`;
	const heard = [...sync.log, ...errors, JSON.stringify(rows)].join('\n');
	expect(errors).toHaveLength(3 * faults.length);
	expect(secret.length).toBeGreaterThan(5);
	expect(heard).not.toContain(secret);
});

test('a byte order mark in front of the responses of the CRM changes nothing', async () => {
	sync.standIn.faults.always({ kind: 'text-before-json', text: '\uFEFF' });
	expect(await full()).toMatchObject({ kind: 'full', seen: before.length });
});
