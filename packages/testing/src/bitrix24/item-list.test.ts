import { describe, expect, it } from 'vitest';
import { addMany, call, ids, itemList, noon, portal, upTo } from './testing/client.js';

describe('a page of crm.item.list', () => {
	it('has 50 rows in result.items, total, and next while there are more [DOC]', async () => {
		const standIn = await portal();
		addMany(standIn, 120);
		const first = await itemList(standIn);
		expect(first.status).toBe(200);
		expect(ids(first)).toEqual(upTo(50));
		expect(first.body).toMatchObject({ total: 120, next: 50 });
		const last = await itemList(standIn, { start: 100 });
		expect(ids(last)).toEqual(upTo(120, 101));
		expect(last.body.total).toBe(120);
		expect(last.body).not.toHaveProperty('next');
	});

	it('has no next when it has exactly the last 50 rows', async () => {
		const standIn = await portal();
		addMany(standIn, 100);
		expect((await itemList(standIn, { start: 50 })).body).not.toHaveProperty('next');
	});

	it('is empty beyond the end', async () => {
		const standIn = await portal();
		addMany(standIn, 60);
		const { body } = await itemList(standIn, { start: 100 });
		expect(body).toMatchObject({ result: { items: [] }, total: 60 });
	});

	it.each([
		['absent', undefined],
		['zero', 0],
	] as const)('with start=-1 has no next, and a total that is %s [DOC] [SRC]', async (totalWithoutCount, total) => {
		const standIn = await portal({ switches: { totalWithoutCount } });
		addMany(standIn, 120);
		const { body } = await itemList(standIn, { start: -1, filter: { '>id': 10 }, order: { id: 'ASC' } });
		expect(body.result.items).toHaveLength(50);
		expect(body.result.items[0]?.id).toBe(11);
		expect(body).not.toHaveProperty('next');
		expect(body.total).toBe(total);
	});

	it('after the last id is empty, so that paging by id returns every contact once', async () => {
		const standIn = await portal();
		addMany(standIn, 130);
		const seen: unknown[] = [];
		for (;;) {
			const page = ids(await itemList(standIn, { start: -1, filter: { '>id': seen.at(-1) ?? 0 } }));
			if (page.length === 0) break;
			seen.push(...page);
		}
		expect(seen).toEqual(upTo(130));
	});
});

describe('the filter of crm.item.list', () => {
	it('supports ids, categories and times, and combines conditions [DOC]', async () => {
		const standIn = await portal();
		addMany(standIn, 5);
		standIn.update(2, { categoryId: 15 });
		standIn.update(3, { updatedTime: new Date(noon + 5000) });
		const list = async (filter: object) => ids(await itemList(standIn, { filter }));
		expect(await list({ '>id': 3 })).toEqual([4, 5]);
		expect(await list({ '<=id': 2 })).toEqual([1, 2]);
		expect(await list({ '!id': 1 })).toEqual([2, 3, 4, 5]);
		expect(await list({ categoryId: 0 })).toEqual([1, 3, 4, 5]);
		expect(await list({ categoryId: null })).toEqual([1, 3, 4, 5]);
		expect(await list({ categoryId: 15 })).toEqual([2]);
		expect(await list({})).toEqual([1, 2, 3, 4, 5]);
		expect(await list({ '>=updatedTime': '2026-08-20T09:10:30+03:00' })).toEqual([3]);
		expect(await list({ '>id': 1, '<id': 4, categoryId: 0 })).toEqual([3]);
		expect(await list({ '!=name': '' })).toEqual([1, 2, 3, 4, 5]);
	});

	it('compares times in whole seconds, in the zone that the value names or else in its own [DOC] [SRC]', async () => {
		const standIn = await portal();
		standIn.add({ id: 1, updatedTime: new Date(noon + 999) });
		const found = async (value: string) => ids(await itemList(standIn, { filter: { '>=updatedTime': value } }));
		const { body } = await itemList(standIn, { select: ['updatedTime'] });
		expect(body.result.items).toEqual([{ updatedTime: '2026-08-20T09:10:29+03:00' }]);
		for (const value of ['2026-08-20T09:10:29+03:00', '2026-08-20T06:10:29Z', '2026-08-20T09:10:29']) {
			expect(await found(value), value).toEqual([1]);
		}
		expect(await found('2026-08-20T06:10:30+00:00')).toEqual([]);
		expect(ids(await itemList(standIn, { filter: { '>updatedTime': '2026-08-20T09:10:29+03:00' } }))).toEqual([]);
	});

	it('refuses unknown fields, fm and companies [DOC]', async () => {
		const standIn = await portal();
		const refused = async (filter: object) => await itemList(standIn, { filter });
		expect(await refused({ FIELD: 1 })).toMatchObject({
			status: 400,
			body: {
				error: 'INVALID_ARG_VALUE',
				error_description: "Invalid filter: field 'FIELD' is not allowed in filter",
			},
		});
		expect((await refused({ companies: 1 })).body.error).toBe('INVALID_ARG_VALUE');
		expect(await refused({ fm: 1 })).toMatchObject({ status: 400, body: { error: '100' } });
	});

	it.each(['refused', 'accepted'] as const)('upper-case names are %s [??]', async (itemUpperCaseNames) => {
		const standIn = await portal({ switches: { itemUpperCaseNames } });
		addMany(standIn, 2);
		const response = await itemList(standIn, { filter: { '>ID': 1 } });
		if (itemUpperCaseNames === 'refused') expect(response.body.error).toBe('INVALID_ARG_VALUE');
		else expect(ids(response)).toEqual([2]);
	});

	it.each(['ignored', 'refused'] as const)('an empty number or date is %s [FIELD]', async (emptyFilterValue) => {
		const standIn = await portal({ switches: { emptyFilterValue } });
		addMany(standIn, 2);
		for (const filter of [{ '>id': '' }, { '>=updatedTime': '2026-08-20T09:10:29 03:00' }]) {
			const response = await itemList(standIn, { filter });
			if (emptyFilterValue === 'ignored') expect(ids(response)).toEqual([1, 2]);
			else expect(response).toMatchObject({ status: 400, body: { error: 'INVALID_ARG_VALUE' } });
		}
	});
});

describe('the order of crm.item.list', () => {
	it('is by id, ascending or descending; other fields and directions are refused [DOC]', async () => {
		const standIn = await portal();
		addMany(standIn, 3);
		const list = async (order: object) => ids(await itemList(standIn, { order }));
		expect(await list({ id: 'DESC' })).toEqual([3, 2, 1]);
		expect(await list({ id: 'asc' })).toEqual([1, 2, 3]);
		const errorDescription = async (order: object) => (await itemList(standIn, { order })).body.error_description;
		expect(await errorDescription({ nothing: 'ASC' })).toBe("Invalid order: field 'nothing' is not allowed in order");
		expect(await errorDescription({ id: 'UP' })).toContain('allowed sort directions are ASC, DESC');
	});

	it.each([
		['ascending', [1, 2]],
		['descending', [2, 1]],
	] as const)('is %s by default [??]', async (defaultOrder, expected) => {
		const standIn = await portal({ switches: { defaultOrder } });
		addMany(standIn, 2);
		expect(ids(await itemList(standIn))).toEqual(expected);
	});
});

describe('crm.item.list', () => {
	it('needs the entity type of contacts', async () => {
		const standIn = await portal();
		expect(await call(standIn, 'crm.item.list')).toMatchObject({ status: 400, body: { error: '100' } });
		for (const entityTypeId of [0, 999]) {
			const response = await call(standIn, 'crm.item.list', { entityTypeId });
			expect(response).toMatchObject({ status: 400, body: { error: 'NOT_FOUND' } });
		}
	});

	it('does not show what the user may not read [DOC]', async () => {
		const standIn = await portal();
		addMany(standIn, 3);
		standIn.hide(({ id }) => id === 2);
		const hidden = await itemList(standIn);
		expect(ids(hidden)).toEqual([1, 3]);
		expect(hidden.body.total).toBe(2);
		standIn.showAll();
		expect(ids(await itemList(standIn))).toEqual([1, 2, 3]);
	});
});
