import { describe, expect, it } from 'vitest';
import type { Fault } from './stand-in.js';
import { addMany, type BatchResult, call, itemList, portal, upTo } from './testing/client.js';

const get = (id: number) => `crm.item.get?entityTypeId=3&id=${id}`;

describe('a scripted fault', () => {
	it.each<[Fault, number, object]>([
		[{ kind: 'error', code: 'INTERNAL_SERVER_ERROR' }, 500, { error_description: 'Internal server error' }],
		[{ kind: 'error', code: 'OVERLOAD_LIMIT' }, 401, { error_description: 'REST API is blocked due to overload.' }],
		[{ kind: 'error', code: 'OVERLOAD_LIMIT', status: 503 }, 503, {}],
		[{ kind: 'error', code: 'OVERLOAD_LIMIT', status: 200 }, 200, {}],
		[{ kind: 'error', code: 'INVALID_CREDENTIALS', status: 403 }, 403, {}],
		[{ kind: 'error', code: 'NO_AUTH_FOUND' }, 401, { error_description: 'Wrong authorization data' }],
		[{ kind: 'error', code: 'insufficient_scope' }, 401, {}],
		[{ kind: 'error', code: 'ACCESS_DENIED' }, 401, { error_description: 'REST is available only by subscription' }],
		[{ kind: 'error', code: 'PORTAL_DELETED' }, 403, { error_description: 'Portal was deleted' }],
		[{ kind: 'error', code: 'QUERY_LIMIT_EXCEEDED' }, 503, {}],
		[{ kind: 'error', code: 'OPERATION_TIME_LIMIT' }, 429, {}],
		[
			{ kind: 'error', code: 'NOT_FOUND', status: 400, description: 'Элемент не найден' },
			400,
			{ error_description: 'Элемент не найден' },
		],
	])('responds %j', async (fault, status, more) => {
		const standIn = await portal();
		standIn.faults.next(fault);
		const { code } = fault as { code: string };
		expect(await itemList(standIn)).toMatchObject({ status, body: { error: code, ...more } });
		expect((await itemList(standIn)).status).toBe(200);
	});

	it('returns a page instead of JSON, with any status', async () => {
		const standIn = await portal();
		for (const status of [502, 200]) {
			standIn.faults.next({ kind: 'html', status });
			const response = await fetch(`${standIn.webhookUrl}profile`);
			expect(response.status).toBe(status);
			expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
			expect(await response.text()).toContain('<html>');
		}
	});

	it('returns JSON that ends in the middle', async () => {
		const standIn = await portal();
		standIn.faults.next({ kind: 'truncated-json' });
		const response = await fetch(`${standIn.webhookUrl}profile`);
		expect(response.status).toBe(200);
		await expect(response.json()).rejects.toThrow(SyntaxError);
	});

	it('returns without a result', async () => {
		const standIn = await portal();
		standIn.faults.next({ kind: 'no-result' });
		expect(await call(standIn, 'profile')).toMatchObject({ status: 200, body: { time: {} } });
	});

	it('returns without the time', async () => {
		const standIn = await portal();
		standIn.faults.next({ kind: 'without-time' });
		expect((await call(standIn, 'profile')).body).toStrictEqual({ result: expect.anything() });
		expect((await call(standIn, 'profile')).body).toMatchObject({ time: { date_start: expect.any(String) } });
	});

	it.each(['reset', 'cut-off'] as const)('breaks the connection: %s', async (kind) => {
		const standIn = await portal();
		standIn.faults.next({ kind });
		await expect(call(standIn, 'profile')).rejects.toThrow();
		expect(standIn.requests[0]).toMatchObject({ status: 0, error: kind });
		expect((await call(standIn, 'profile')).status).toBe(200);
	});

	it('never responds, until the stand-in is closed', async () => {
		const standIn = await portal();
		standIn.faults.next({ kind: 'hang' });
		const hanging = call(standIn, 'profile');
		hanging.catch(() => undefined);
		expect((await itemList(standIn)).status).toBe(200);
		await standIn.close();
		await expect(hanging).rejects.toThrow();
	});

	it('responds late', async () => {
		const standIn = await portal();
		const order: string[] = [];
		let release = () => {};
		const until = new Promise<void>((resolve) => {
			release = resolve;
		});
		standIn.faults.next({ kind: 'slow', until });
		const slow = call(standIn, 'profile').then(() => order.push('slow'));
		await itemList(standIn);
		order.push('other');
		release();
		await slow;
		expect(order).toEqual(['other', 'slow']);
		standIn.faults.next({ kind: 'slow', milliseconds: 1 });
		expect((await call(standIn, 'profile')).status).toBe(200);
	});

	it('sends to another host [DOC]', async () => {
		const standIn = await portal();
		standIn.faults.next({ kind: 'redirect', to: 'https://new-name.bitrix24.example' });
		const response = await fetch(`${standIn.webhookUrl}profile`, { method: 'POST', redirect: 'manual' });
		expect(response.status).toBe(302);
		const { pathname } = new URL(standIn.webhookUrl);
		expect(response.headers.get('location')).toBe(`https://new-name.bitrix24.example${pathname}profile`);
	});

	it('changes rows in lists of both families, and inside a batch', async () => {
		const standIn = await portal();
		addMany(standIn, 3);
		standIn.faults.next({ kind: 'array-items' });
		expect((await itemList(standIn)).body.result.items).toEqual([[], [], []]);
		standIn.faults.next({ kind: 'array-items' });
		expect((await call(standIn, 'crm.contact.list', { select: ['ID'] })).body.result).toEqual([[], [], []]);
		standIn.faults.always({ kind: 'without-fields', fields: ['companyIds', 'fm'] });
		const [row] = (await itemList(standIn)).body.result.items;
		expect(row).not.toHaveProperty('companyIds');
		expect(row).not.toHaveProperty('fm');
		expect(row).toHaveProperty('id');
		const { body } = await call<BatchResult>(standIn, 'batch', { cmd: { a: get(1) } });
		expect(body.result.result.a?.item).not.toHaveProperty('companyIds');
		standIn.faults.clear();
		expect((await itemList(standIn)).body.result.items[0]).toHaveProperty('fm');
		standIn.faults.next({ kind: 'with-fields', values: { categoryId: 'general' } });
		expect((await itemList(standIn)).body.result.items[0]).toMatchObject({ id: 1, categoryId: 'general' });
	});

	it('empties a list', async () => {
		const standIn = await portal();
		addMany(standIn, 60);
		standIn.faults.always({ kind: 'empty-list' });
		const counted = (await itemList(standIn)).body;
		expect(counted).toMatchObject({ result: { items: [] }, total: 0 });
		expect(counted).not.toHaveProperty('next');
		expect((await itemList(standIn, { start: -1 })).body).not.toHaveProperty('total');
		expect((await call(standIn, 'crm.contact.list')).body).toMatchObject({ result: [], total: 0 });
	});
});

describe('the script of faults', () => {
	it('is worked through in order; permanent faults remain', async () => {
		const standIn = await portal();
		standIn.faults.always({ kind: 'error', code: 'INTERNAL_SERVER_ERROR' }, { method: 'crm.contact.list' });
		standIn.faults.next({ kind: 'error', code: 'A' }, { method: 'profile' });
		standIn.faults.next({ kind: 'error', code: 'B' }, { times: 2 });
		expect(standIn.faults.pending).toBe(3);
		const codes: unknown[] = [];
		for (const method of ['crm.contact.list', 'profile', 'profile', 'profile', 'crm.contact.list']) {
			codes.push((await call(standIn, method)).body.error);
		}
		expect(codes).toEqual(['B', 'A', 'B', undefined, 'INTERNAL_SERVER_ERROR']);
	});

	it('reaches commands of a batch by their method; the batch itself has status 200 [FIELD]', async () => {
		const standIn = await portal();
		addMany(standIn, 3);
		standIn.faults.next({ kind: 'error', code: 'OPERATION_TIME_LIMIT' }, { method: 'crm.item.get', inBatch: true });
		expect((await call(standIn, 'crm.item.get', { entityTypeId: 3, id: 1 })).status).toBe(200);
		const { status, body } = await call<BatchResult>(standIn, 'batch', { cmd: { a: get(1), b: get(2) } });
		expect(status).toBe(200);
		expect(body.result.result_error).toEqual({
			a: {
				error: 'OPERATION_TIME_LIMIT',
				error_description: 'Method is blocked due to operation time limit.',
			},
		});
		expect(Object.keys(body.result.result)).toEqual(['b']);
	});

	it('selects requests by their parameters', async () => {
		const standIn = await portal();
		addMany(standIn, 3);
		standIn.faults.always(
			{ kind: 'error', code: 'ACCESS_DENIED', status: 400 },
			{ method: 'crm.item.get', when: ({ params }) => Number(params.id) === 2 },
		);
		const { body } = await call<BatchResult>(standIn, 'batch', {
			cmd: Object.fromEntries(upTo(3).map((id) => [`c${id}`, get(id)])),
		});
		expect(Object.keys(body.result.result_error)).toEqual(['c2']);
	});
});
