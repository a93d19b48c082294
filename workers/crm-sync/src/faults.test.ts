import type { Fault } from '@contacts/testing/bitrix24/stand-in.js';
import { database, test } from '@contacts/testing/test.js';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import { readState } from './sync.sql.js';
import {
	type ExpectedRow,
	emptyMirror,
	makeContact,
	readMirror,
	type SyncHarness,
	shareSession,
	startSync,
} from './testing/portal.js';

const session = shareSession();
let sync: SyncHarness;
let before: ExpectedRow[];

beforeEach(async () => {
	sync = await startSync({}, { session: session() });
	for (let n = 1; n <= 130; n++) sync.standIn.add(makeContact(n));
	await sync.synchroniser.pass();
	before = await readMirror();
	sync.standIn.requests.length = 0;
});
afterEach(async () => {
	await sync.close();
	await emptyMirror();
});

const state = () => sync.session.run(readState);
const error = (code: string, status?: number): Fault => ({ kind: 'error', code, ...(status && { status }) });

describe('a temporary error is retried, and the pass is complete', () => {
	test.each<[string, Fault]>([
		['500 with INTERNAL_SERVER_ERROR', error('INTERNAL_SERVER_ERROR', 500)],
		['ERROR_UNEXPECTED_ANSWER', error('ERROR_UNEXPECTED_ANSWER', 500)],
		['a 500 with a code that nobody knows', error('SOMETHING_NEW', 500)],
		['HTML with 502', { kind: 'html', status: 502 }],
		['HTML with 200', { kind: 'html', status: 200 }],
		['truncated JSON', { kind: 'truncated-json' }],
		['200 without a result', { kind: 'no-result' }],
		['rows that are no objects', { kind: 'array-items' }],
		['a connection that breaks in the middle', { kind: 'cut-off' }],
		['a connection that is reset', { kind: 'reset' }],
		['no response at all', { kind: 'hang' }],
		['too many requests, as 503', error('QUERY_LIMIT_EXCEEDED', 503)],
		['too many requests, as 200', error('QUERY_LIMIT_EXCEEDED', 200)],
	])('%s', async (_, fault) => {
		if (fault.kind === 'hang') await sync.restart({ responseTimeoutMs: 300 });
		sync.standIn.add(makeContact(131));
		const [first = 0] = sync.standIn.contacts.keys();
		sync.standIn.remove(first);
		sync.standIn.faults.next(fault, { method: 'crm.item.list', times: 3 });
		expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ created: 1, deleted: 1 });
		expect((await readMirror()).map((row) => row.bitrix_id)).toEqual([...sync.standIn.contacts.keys()]);
	});
});

describe('a permanent error ends the pass without changes', () => {
	test.each<[string, Fault, string]>([
		['HTML', { kind: 'html', status: 200 }, 'not_json'],
		['truncated JSON', { kind: 'truncated-json' }, 'not_json'],
		['200 without a result', { kind: 'no-result' }, 'no_result'],
		['resets', { kind: 'reset' }, 'network'],
		['errors of the server', error('INTERNAL_SERVER_ERROR', 500), 'INTERNAL_SERVER_ERROR'],
		['too many requests', error('QUERY_LIMIT_EXCEEDED'), 'QUERY_LIMIT_EXCEEDED'],
	])('%s', async (_, fault, code) => {
		for (const id of [...sync.standIn.contacts.keys()].slice(0, 5)) sync.standIn.remove(id);
		sync.standIn.faults.always(fault);
		await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ code });
		expect(await readMirror()).toEqual(before);
		expect((await state()).blocked_by).toBe(code);
	});

	test('an empty list, or a list with far fewer contacts than the portal counts', async () => {
		sync.standIn.faults.always({ kind: 'empty-list' });
		await sync.synchroniser.pass({ full: true });
		expect(await readMirror()).toEqual(before);
		expect((await state()).held_deletions).toBe(before.length);

		sync.standIn.faults.clear();
		sync.standIn.faults.next({ kind: 'empty-list' }, { when: ({ params }) => Number(params.filter?.['>id']) > 60 });
		await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ name: 'IncompletePassError' });
		expect(await readMirror()).toEqual(before);
	});
});

describe('an error that somebody has to fix stops the pass after one request', () => {
	test.each([
		['OVERLOAD_LIMIT', 401],
		['OVERLOAD_LIMIT', 503],
		['OVERLOAD_LIMIT', 200],
		['INVALID_CREDENTIALS', 401],
		['INVALID_CREDENTIALS', 403],
		['NO_AUTH_FOUND', 401],
		['insufficient_scope', 403],
		['ACCESS_DENIED', 401],
		['PORTAL_DELETED', 403],
		['INVALID_REQUEST', 400],
		['ERROR_METHOD_NOT_FOUND', 404],
		['SOMETHING_NEW', 400],
	])('%s as %d', async (code, status) => {
		for (const id of [...sync.standIn.contacts.keys()].slice(0, 5)) sync.standIn.remove(id);
		sync.standIn.faults.always({ ...error(code, status), description: 'Доступ запрещён' } as Fault);
		await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ code });
		expect(sync.standIn.requests).toHaveLength(1);
		expect(await readMirror()).toEqual(before);
		const { blocked_by: blocked, blocked_until: until } = await state();
		expect([blocked, Number(until) > sync.clock.now()]).toEqual([code, true]);
	});

	test('a webhook that is revoked in the middle of a pass', async () => {
		sync.standIn.onRequest(({ number }) => {
			if (number > 2) sync.standIn.revokeWebhook();
		});
		await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ code: 'INVALID_CREDENTIALS' });
		expect(await readMirror()).toEqual(before);
	});

	test('a moved portal: the redirect is not followed, and the new host is reported', async () => {
		sync.standIn.faults.always({ kind: 'redirect', to: 'https://new.example.test/rest/1/secret/crm.item.list.json' });
		await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({
			code: 'portal_moved_to_new.example.test',
		});
		expect(sync.standIn.requests.every(({ status }) => status === 302)).toBe(true);
		expect(await readMirror()).toEqual(before);
	});

	test('a successful pass clears the block', async () => {
		sync.standIn.faults.next(error('OVERLOAD_LIMIT'));
		await expect(sync.synchroniser.pass({ full: true })).rejects.toThrow();
		await sync.synchroniser.pass({ full: true });
		expect(await state()).toMatchObject({ blocked_by: null, blocked_until: null });
	});
});

describe('a method that has used up its operating time', () => {
	test('is not called until the pause is over; then the pass continues from its cursor', async () => {
		sync.standIn.faults.next(error('OPERATION_TIME_LIMIT', 429), {
			when: ({ params }) => Number(params.filter?.['>id']) > 50,
		});
		const begun = sync.clock.now();
		expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ deleted: 0 });
		expect(sync.clock.now() - begun).toBeGreaterThanOrEqual(30_000);
		const firstPages = sync.standIn.requests.filter(
			({ params }) => (params as { filter?: { '>id'?: number } }).filter?.['>id'] === 0,
		);
		expect(firstPages).toHaveLength(1);
	});

	test('is given up after eleven minutes, with the cursor saved', async () => {
		sync.standIn.faults.always(error('OPERATION_TIME_LIMIT', 429), {
			when: ({ params }) => Number(params.filter?.['>id']) > 50,
		});
		await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ code: 'OPERATION_TIME_LIMIT' });
		const { full_cursor: cursor, blocked_by: blocked, blocked_until: until } = await state();
		expect(Number(cursor)).toBeGreaterThan(0);
		expect([blocked, Number(until) > sync.clock.now()]).toEqual(['OPERATION_TIME_LIMIT', true]);
		expect(await readMirror()).toEqual(before);
	});

	test('inside a batch too: nothing is deleted because of it', async () => {
		const [first = 0] = sync.standIn.contacts.keys();
		sync.standIn.remove(first);
		sync.standIn.faults.next(error('OPERATION_TIME_LIMIT'), { method: 'crm.item.get', inBatch: true });
		expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ deleted: 1 });
		expect(sync.standIn.requests.filter(({ method }) => method === 'batch')).toHaveLength(2);
	});
});

test.each([error('INTERNAL_SERVER_ERROR'), error('ACCESS_DENIED'), error('')])(
	'a contact whose look-up failed is not deleted: %j',
	async (fault) => {
		const [first = 0] = sync.standIn.contacts.keys();
		sync.standIn.remove(first);
		sync.standIn.faults.always(fault, { method: 'crm.item.get', inBatch: true });
		await sync.synchroniser.pass({ full: true }).catch(() => undefined);
		expect(await readMirror()).toEqual(before);
	},
);

test('the portal’s rate limit is never reached, even with a restart at every page', async () => {
	for (let round = 0; round < 12; round++) {
		sync.standIn.faults.next(error('INVALID_CREDENTIALS'), {
			when: ({ params }) => Number(params.filter?.['>id']) > 100,
		});
		await sync.synchroniser.pass({ full: true }).catch(() => undefined);
		await sync.restart();
	}
	await sync.synchroniser.pass({ full: true });
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
	for (const fault of faults) {
		if (fault.kind === 'hang') await sync.restart({ responseTimeoutMs: 300 });
		sync.standIn.faults.always(fault);
		await sync.synchroniser
			.pass({ full: true })
			.catch((failure: Error) => errors.push(String(failure.stack), JSON.stringify(failure), String(failure.cause)));
		sync.standIn.faults.clear();
	}
	const rows = await database.sql`select s::text, r::text from crm_sync_state s, crm_sync_runs r`;
	const heard = [...sync.log, ...errors, JSON.stringify(rows)].join('\n');
	expect(errors.length).toBeGreaterThan(faults.length);
	expect(secret.length).toBeGreaterThan(5);
	expect(heard).not.toContain(secret);
});
