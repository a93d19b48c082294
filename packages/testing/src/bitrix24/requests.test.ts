import { request as httpRequest } from 'node:http';
import { describe, expect, it } from 'vitest';
import type { StandIn } from './stand-in.js';
import { addMany, call, ids, itemList, noon, portal, type Row, reply } from './testing/client.js';

const form = (standIn: StandIn, method: string, body: string) =>
	fetch(standIn.webhookUrl + method, {
		method: 'POST',
		headers: { 'content-type': 'application/x-www-form-urlencoded' },
		body,
	}).then(reply<{ items: Row[] }>);

describe('a request', () => {
	it('is JSON, a form or a query string, with or without .json [DOC]', async () => {
		const standIn = await portal({ switches: { defaultOrder: 'descending' } });
		addMany(standIn, 3);
		const query = 'entityTypeId=3&select=id&start=0';
		const expected = { items: [{ id: 3 }, { id: 2 }, { id: 1 }] };
		const json = { entityTypeId: 3, select: ['id'], start: 0 };
		expect((await call(standIn, 'crm.item.list', json)).body.result).toEqual(expected);
		expect((await call(standIn, 'crm.item.list.json', json)).body.result).toEqual(expected);
		expect((await form(standIn, 'crm.item.list', query)).body.result).toEqual(expected);
		const got = await fetch(`${standIn.webhookUrl}crm.item.list?${query}`).then(reply);
		expect(got.body.result).toEqual(expected);
		expect(got.headers.get('content-type')).toBe('application/json; charset=utf-8');
	});

	it('needs the secret, and the user that it belongs to [DOC]', async () => {
		const standIn = await portal();
		expect(standIn.webhookUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/rest\/1\/k3v9s7q1x5w8\/$/);
		const root = new URL('/rest/', standIn.webhookUrl).href;
		const refused = { status: 401, body: { error: 'INVALID_CREDENTIALS' } };
		expect(await fetch(`${root}1/wrong/profile`).then(reply)).toMatchObject(refused);
		expect(await fetch(`${root}7/k3v9s7q1x5w8/profile`).then(reply)).toMatchObject(refused);
		expect(await fetch(`${root}profile`).then(reply)).toMatchObject({ status: 401, body: { error: 'NO_AUTH_FOUND' } });
		expect((await call(standIn, 'profile')).status).toBe(200);
		standIn.revokeWebhook();
		expect(await call(standIn, 'profile')).toMatchObject(refused);
	});

	it('for an unknown method is refused with 404 [DOC]', async () => {
		const standIn = await portal();
		for (const method of ['crm.nothing.list', 'constructor', '']) {
			const body = { error: 'ERROR_METHOD_NOT_FOUND', error_description: 'Method not found!' };
			expect(await call(standIn, method)).toMatchObject({ status: 404, body });
		}
	});

	it('to another address gets an HTML page', async () => {
		const standIn = await portal();
		const response = await fetch(new URL('/', standIn.webhookUrl));
		expect(response.status).toBe(404);
		expect(response.headers.get('content-type')).toContain('text/html');
	});

	it('with broken JSON has no parameters [INF]', async () => {
		const standIn = await portal();
		const headers = { 'content-type': 'application/json' };
		const response = await fetch(`${standIn.webhookUrl}profile`, { method: 'POST', headers, body: '{"a":' });
		expect(response.status).toBe(200);
		expect(standIn.requests[0]).toMatchObject({ params: {} });
	});

	it('is recorded with its response', async () => {
		const standIn = await portal();
		await itemList(standIn, { start: -1 });
		await call(standIn, 'crm.item.get', { entityTypeId: 3, id: 5 });
		expect(standIn.requests).toEqual([
			{ at: noon, method: 'crm.item.list', params: { entityTypeId: 3, start: -1 }, status: 200 },
			{ at: noon, method: 'crm.item.get', params: { entityTypeId: 3, id: 5 }, status: 400, error: 'NOT_FOUND' },
		]);
	});

	it('is passed to a hook before it is handled; the hook can be removed', async () => {
		const standIn = await portal();
		const seen: unknown[] = [];
		const stop = standIn.onRequest(async (request) => {
			seen.push(request);
			standIn.add({ name: 'new' });
		});
		expect(ids(await itemList(standIn))).toEqual([1]);
		stop();
		expect(ids(await itemList(standIn))).toEqual([1]);
		expect(seen).toEqual([{ number: 1, method: 'crm.item.list', params: { entityTypeId: 3 } }]);
	});

	it('fails visibly when a hook of the test fails', async () => {
		const standIn = await portal();
		standIn.onRequest(() => Promise.reject(new Error('the test is wrong')));
		const response = await itemList(standIn);
		expect(response).toMatchObject({ status: 500, body: { error: 'STAND_IN_FAILED' } });
		expect(response.body.error_description).toContain('the test is wrong');
	});

	it('whose client disconnects in the middle affects no other', async () => {
		const standIn = await portal();
		await new Promise<void>((resolve) => {
			const headers = { 'content-length': 100 };
			const sent = httpRequest(`${standIn.webhookUrl}profile`, { method: 'POST', headers });
			sent.on('error', () => undefined).on('close', resolve);
			sent.write('half', () => sent.destroy());
		});
		expect((await call(standIn, 'profile')).status).toBe(200);
	});
});

describe('the statuses of errors', () => {
	it.each([
		['older', 200, 503, 200],
		['b24restdocs', 403, 503, 503],
		['newest', 401, 503, 401],
	] as const)('follow the %s table [DOC]', async (statusTable, credentials, rate, overload) => {
		const standIn = await portal({ plan: 'standard', switches: { statusTable } });
		standIn.faults.next({ kind: 'error', code: 'INVALID_CREDENTIALS' });
		standIn.faults.next({ kind: 'error', code: 'QUERY_LIMIT_EXCEEDED' });
		standIn.faults.next({ kind: 'error', code: 'OVERLOAD_LIMIT' });
		const statuses: number[] = [];
		for (let count = 0; count < 3; count++) statuses.push((await call(standIn, 'profile')).status);
		expect(statuses).toEqual([credentials, rate, overload]);
	});

	it('can be set one by one [??]', async () => {
		const standIn = await portal({ switches: { statuses: { NOT_FOUND: 404, INVALID_CREDENTIALS: 418 } } });
		expect((await call(standIn, 'crm.item.get', { entityTypeId: 3, id: 1 })).status).toBe(404);
		standIn.revokeWebhook();
		expect((await call(standIn, 'profile')).status).toBe(418);
	});
});

describe('the time object', () => {
	it("is by the portal's clock and in its zone [DOC] [REC]", async () => {
		const standIn = await portal({ utcOffset: '-03:30' });
		const { time } = (await call(standIn, 'profile')).body;
		expect(time).toMatchObject({
			start: noon / 1000,
			date_start: '2026-08-20T02:40:29-03:30',
			date_finish: '2026-08-20T02:40:29-03:30',
			operating: 0,
			operating_reset_at: noon / 1000 + 600,
		});
		expect(time.finish).toBeGreaterThan(time.start);
	});

	it.each([
		['present', noon / 1000 + 600],
		['null', null],
		['absent', undefined],
	] as const)('has operating_reset_at %s [DOC]', async (operatingResetAt, expected) => {
		const standIn = await portal({ switches: { operatingResetAt } });
		expect((await call(standIn, 'profile')).body.time.operating_reset_at).toBe(expected);
	});

	it.each([false, true])('has whole seconds: %s [DOC]', async (wholeSecondsInTime) => {
		const standIn = await portal({ clock: () => noon + 250, switches: { wholeSecondsInTime } });
		const { time } = (await call(standIn, 'profile')).body;
		expect(Number.isInteger(time.start)).toBe(wholeSecondsInTime);
		expect(Number.isInteger(time.processing)).toBe(wholeSecondsInTime);
	});

	it('is missing from errors', async () => {
		const standIn = await portal();
		expect(Object.keys((await call(standIn, 'nothing')).body)).toEqual(['error', 'error_description']);
	});
});
