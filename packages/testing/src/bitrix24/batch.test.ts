import { describe, expect, it } from 'vitest';
import type { StandIn } from './stand-in.js';
import { addMany, type BatchResult, call, portal, type Row, upTo } from './testing/client.js';

async function batch(standIn: StandIn, cmd: unknown, more: object = {}) {
	const { status, body } = await call<BatchResult>(standIn, 'batch', { cmd, ...more });
	expect(status).toBe(200);
	return body.result;
}

const get = (id: unknown) => `crm.item.get?entityTypeId=3&id=${id}`;

describe('batch', () => {
	it('runs commands under their keys, empty maps are lists [DOC] [REC]', async () => {
		const standIn = await portal();
		addMany(standIn, 60);
		const result = await batch(standIn, {
			c0: get(2),
			c1: 'crm.item.list?entityTypeId=3&select=id&start=0',
			c2: 'crm.contact.company.items.get?id=1',
		});
		expect(result.result.c0).toMatchObject({ item: { id: 2 } });
		expect((result.result.c1 as { items: Row[] }).items[0]).toEqual({ id: 1 });
		expect(result.result.c2).toEqual([]);
		expect(result.result_error).toEqual([]);
		expect(result.result_total).toEqual({ c1: 60 });
		expect(result.result_next).toEqual({ c1: 50 });
		expect(Object.keys(result.result_time)).toEqual(['c0', 'c1', 'c2']);
	});

	it('returns empty lists where there are no results [REC]', async () => {
		const standIn = await portal();
		const lists = { result: [], result_error: [], result_total: [], result_next: [], result_time: [] };
		expect(await batch(standIn, {})).toEqual(lists);
		const failed = await batch(standIn, { c0: get(1) });
		expect(failed).toMatchObject({ ...lists, result_error: { c0: { error: 'NOT_FOUND' } } });
	});

	it('puts a failed command into result_error only [DOC] [REC]', async () => {
		const standIn = await portal();
		addMany(standIn, 1);
		const result = await batch(standIn, { c0: get(1), c1: get(2), c2: 'crm.nothing', c3: 'crm.contact.get?id=9' });
		expect(Object.keys(result.result)).toEqual(['c0']);
		expect(Object.keys(result.result_time)).toEqual(['c0']);
		expect(result.result_error).toEqual({
			c1: { error: 'NOT_FOUND', error_description: 'Element not found' },
			c2: { error: 'ERROR_METHOD_NOT_FOUND', error_description: 'Method not found!' },
			c3: { error: '', error_description: 'Not found' },
		});
		expect(standIn.requests[0]?.calls?.map(({ key, method, error }) => [key, method, error])).toEqual([
			['c0', 'crm.item.get', undefined],
			['c1', 'crm.item.get', 'NOT_FOUND'],
			['c2', 'crm.nothing', 'ERROR_METHOD_NOT_FOUND'],
			['c3', 'crm.contact.get', ''],
		]);
	});

	it('turns maps with the keys 0, 1, 2 into lists [REC]', async () => {
		const standIn = await portal();
		addMany(standIn, 1);
		const all = await batch(standIn, [get(1), get(1)]);
		expect(all.result).toHaveLength(2);
		expect(all.result_time).toHaveLength(2);
		const mixed = await batch(standIn, [get(9), get(1)]);
		expect(mixed.result_error).toMatchObject([{ error: 'NOT_FOUND' }]);
		expect(mixed.result).toMatchObject({ 1: { item: { id: 1 } } });
	});

	it('stops at the first error with halt [DOC]', async () => {
		const standIn = await portal();
		addMany(standIn, 1);
		for (const halt of [1, '1', true]) {
			const result = await batch(standIn, { c0: get(9), c1: get(1) }, { halt });
			expect(result.result).toEqual([]);
			expect(Object.keys(result.result_error)).toEqual(['c0']);
		}
		expect((await batch(standIn, { c0: get(9), c1: get(1) }, { halt: '0' })).result).toHaveProperty('c1');
	});

	it('refuses commands beyond the 50th, one by one [DOC]', async () => {
		const standIn = await portal();
		addMany(standIn, 1);
		const result = await batch(standIn, Object.fromEntries(upTo(52).map((index) => [`c${index}`, get(1)])));
		expect(Object.keys(result.result)).toHaveLength(50);
		expect(Object.keys(result.result_error)).toEqual(['c51', 'c52']);
		expect(result.result_error.c51?.error).toBe('ERROR_BATCH_LENGTH_EXCEEDED');
	});

	it('is not allowed inside itself [DOC]', async () => {
		const standIn = await portal();
		const result = await batch(standIn, { c0: 'batch?cmd[a]=profile' });
		expect(result.result_error.c0?.error).toBe('ERROR_BATCH_METHOD_NOT_ALLOWED');
	});
});
