import { expect, it } from 'vitest';
import type { StandIn } from './stand-in.js';
import { call, itemList, portal, type Row } from './testing/client.js';

const full = { id: 123, companyIds: [31, 27], phones: [{ id: 451, valueType: 'WORK', value: '+49 30 12345678' }] };

async function row(standIn: StandIn): Promise<Row> {
	return (await itemList(standIn)).body.result.items[0] ?? {};
}
const item = async (standIn: StandIn) =>
	(await call<{ item: Row }>(standIn, 'crm.item.get', { entityTypeId: 3, id: 123 })).body.result.item;

it.each([
	['filled', [31, 27]],
	['empty', []],
	['absent', undefined],
	['primary', [31]],
] as const)('has companyIds %s, crm.item.get has them anyway [??]', async (itemListCompanyIds, expected) => {
	const standIn = await portal({ switches: { itemListCompanyIds } });
	standIn.add(full);
	expect((await row(standIn)).companyIds).toEqual(expected);
	expect((await item(standIn)).companyIds).toEqual([31, 27]);
});

it.each([
	['empty', [], []],
	['absent', undefined, undefined],
] as const)('crm.item.get has companyIds and fm %s, the list has them anyway [??]', async (position, ids, fm) => {
	const standIn = await portal({ switches: { itemGetCompanyIds: position, itemGetFm: position } });
	standIn.add(full);
	expect(await item(standIn)).toMatchObject({ id: 123, companyId: 31, hasPhone: 'Y' });
	expect([(await item(standIn)).companyIds, (await item(standIn)).fm]).toEqual([ids, fm]);
	expect((await row(standIn)).companyIds).toEqual([31, 27]);
	expect((await row(standIn)).fm).toMatchObject([{ id: 451 }]);
});

it.each([
	['empty', []],
	['absent', undefined],
] as const)('has fm %s, crm.item.get has it anyway [??]', async (itemListFm, expected) => {
	const standIn = await portal({ switches: { itemListFm } });
	standIn.add(full);
	expect((await row(standIn)).fm).toEqual(expected);
	expect((await item(standIn)).fm).toMatchObject([{ id: 451 }]);
});

it('leaves out companyId and hasPhone [??]', async () => {
	const standIn = await portal({ switches: { itemHints: 'absent' } });
	standIn.add(full);
	for (const one of [await row(standIn), await item(standIn)]) {
		expect([one.companyId, one.hasPhone, one.phone]).toEqual([undefined, undefined, undefined]);
	}
});

it.each([
	['number', 0],
	['string', '0'],
	['null', null],
	['absent', undefined],
] as const)('has the general category as %s [DOC] [??]', async (itemGeneralCategory, expected) => {
	const standIn = await portal({ switches: { itemGeneralCategory } });
	standIn.add(full);
	expect([(await row(standIn)).categoryId, (await item(standIn)).categoryId]).toEqual([expected, expected]);
	standIn.update(123, { categoryId: 7 });
	expect((await item(standIn)).categoryId).toBe(7);
});
