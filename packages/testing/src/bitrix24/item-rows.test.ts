import { describe, expect, it } from 'vitest';
import type { StandIn, UserField } from './stand-in.js';
import { call, ids, itemList, portal, type Row } from './testing/client.js';

const fields: UserField[] = [
	{ name: 'UF_CRM_1700000000001', type: 'boolean', title: 'Trouble' },
	{ name: 'UF_CRM_1700000000002', type: 'string' },
	{ name: 'UF_CRM_1700000000003', type: 'enumeration', items: [{ id: 79, value: 'Price' }] },
	{ name: 'UF_CRM_1700000000004', type: 'enumeration', multiple: true, items: [{ id: 80, value: 'Time' }] },
	{ name: 'UF_CRM_1700000000005', type: 'string', multiple: true },
];

const full = {
	id: 123,
	name: 'Klaus',
	lastName: 'Weber',
	assignedById: 6,
	companyIds: [31, 27],
	phones: [{ id: 451, valueType: 'WORK', value: '+49 30 12345678' }],
	emails: [{ id: 452, valueType: 'WORK', value: 'klaus@example.com' }],
	uf: {
		UF_CRM_1700000000001: true,
		UF_CRM_1700000000002: 'because',
		UF_CRM_1700000000003: 79,
		UF_CRM_1700000000004: [80],
		UF_CRM_1700000000005: ['a', 'b'],
	},
};

async function row(standIn: StandIn, params: object = {}) {
	return (await itemList(standIn, params)).body.result.items[0];
}

describe('a row of crm.item.list', () => {
	it.each([{}, { select: ['*'] }])('has everything with %j [DOC]', async (params) => {
		const standIn = await portal({ fields });
		standIn.add(full);
		expect(await row(standIn, params)).toMatchObject({
			id: 123,
			name: 'Klaus',
			secondName: null,
			lastName: 'Weber',
			assignedById: 6,
			companyId: 31,
			companyIds: [31, 27],
			categoryId: 0,
			hasPhone: 'Y',
			createdTime: '2026-08-20T09:10:29+03:00',
			updatedTime: '2026-08-20T09:10:29+03:00',
			phoneWork: '+49 30 12345678',
			fm: [
				{ id: 451, typeId: 'PHONE', valueType: 'WORK', value: '+49 30 12345678' },
				{ id: 452, typeId: 'EMAIL', valueType: 'WORK', value: 'klaus@example.com' },
			],
			ufCrm_1700000000001: 'Y',
			ufCrm_1700000000002: 'because',
			ufCrm_1700000000003: 79,
			ufCrm_1700000000004: [80],
			ufCrm_1700000000005: ['a', 'b'],
			entityTypeId: 3,
		});
	});

	it('has what is selected; fm and unknown names are dropped silently [DOC] [SRC]', async () => {
		const standIn = await portal({ fields });
		standIn.add(full);
		const select = ['id', 'companyIds', 'fm', 'nothing', 'entityTypeId', 'ufCrm_1700000000001'];
		expect(await row(standIn, { select })).toEqual({
			id: 123,
			companyIds: [31, 27],
			ufCrm_1700000000001: 'Y',
		});
	});

	it('is an empty list when nothing that is selected exists [SRC]', async () => {
		const standIn = await portal();
		standIn.add(full);
		expect(await row(standIn, { select: ['fm', 'UF_CRM_1700000000001'] })).toEqual([]);
	});

	it.each([false, true])('has fm beside "*" and other names: %s [DOC] [??]', async (fmBesideStar) => {
		const standIn = await portal({ switches: { fmBesideStar } });
		standIn.add(full);
		expect('fm' in ((await row(standIn, { select: ['*', 'id'] })) ?? {})).toBe(fmBesideStar);
	});

	it.each(['null', 'zero'] as const)('has %s for no company [DOC]', async (noCompany) => {
		const standIn = await portal({ switches: { noCompany } });
		standIn.add({});
		expect(await row(standIn)).toMatchObject({ companyId: noCompany === 'zero' ? 0 : null, companyIds: [], fm: [] });
	});

	it.each(['empty-rows', 'only-user-fields'] as const)(
		'is incomplete with useOriginalUfNames and a select: %s [FIELD]',
		async (originalUfNamesBug) => {
			const standIn = await portal({ fields, switches: { originalUfNamesBug } });
			standIn.add(full);
			const select = ['id', 'name', 'UF_CRM_1700000000002'];
			const expected = originalUfNamesBug === 'empty-rows' ? [] : { UF_CRM_1700000000002: 'because' };
			expect(await row(standIn, { select, useOriginalUfNames: 'Y' })).toEqual(expected);
			expect(await row(standIn, { useOriginalUfNames: 'Y' })).toMatchObject({
				id: 123,
				UF_CRM_1700000000002: 'because',
			});
		},
	);
});

describe('custom fields of an item', () => {
	it.each([
		['empty', 'no', { b: 'N', s: '', e: '' }],
		['null', 'no', { b: 'N', s: null, e: null }],
		['empty', 'unset', { b: '', s: '', e: '' }],
		['null', 'unset', { b: null, s: null, e: null }],
	] as const)('unset: %s, boolean %s [??]', async (unsetUf, unsetBooleanUf, expected) => {
		const standIn = await portal({ fields, switches: { unsetUf, unsetBooleanUf } });
		standIn.add({});
		const item = await row(standIn);
		expect(item).toMatchObject({
			ufCrm_1700000000001: expected.b,
			ufCrm_1700000000002: expected.s,
			ufCrm_1700000000003: expected.e,
			ufCrm_1700000000004: [],
			ufCrm_1700000000005: [],
		});
	});

	it.each([
		['number', 79, [80]],
		['string', '79', ['80']],
	] as const)('have ids of options as %s [??]', async (itemEnumerationIds, one, many) => {
		const standIn = await portal({ fields, switches: { itemEnumerationIds } });
		standIn.add(full);
		expect(await row(standIn)).toMatchObject({ ufCrm_1700000000003: one, ufCrm_1700000000004: many });
	});

	it('are filtered by 1 and 0 where they are boolean, not by Y and N [DOC]', async () => {
		const standIn = await portal({ fields });
		standIn.add(full);
		standIn.add({ id: 200 });
		const found = async (filter: object) => ids(await itemList(standIn, { filter }));
		expect(await found({ ufCrm_1700000000001: 1 })).toEqual([123]);
		expect(await found({ ufCrm_1700000000001: '0' })).toEqual([200]);
		// [INF] As SQL compares a text with a number: Y is 0.
		expect(await found({ ufCrm_1700000000001: 'Y' })).toEqual([200]);
		expect(await found({ ufCrm_1700000000004: 80 })).toEqual([123]);
		expect(await found({ '=ufCrm_1700000000002': 'because' })).toEqual([123]);
	});

	it('are in no row, description or filter after they were removed', async () => {
		const standIn = await portal({ fields });
		standIn.add(full);
		standIn.removeField('UF_CRM_1700000000001');
		expect(await row(standIn)).not.toHaveProperty('ufCrm_1700000000001');
		const { body } = await call(standIn, 'crm.item.fields', { entityTypeId: 3 });
		expect(body.result.fields).not.toHaveProperty('ufCrm_1700000000001');
		const response = await itemList(standIn, { filter: { ufCrm_1700000000001: 1 } });
		expect(response.body.error).toBe('INVALID_ARG_VALUE');
	});

	it.each([
		['UF_CRM_1747309879', 'ufCrm_1747309879'],
		['UF_CRM_3_1747309727', 'ufCrm3_1747309727'],
		['UF_CRM_3_DIGIT', 'ufCrm3Digit'],
		['UF_CRM_3_DIGIT10', 'ufCrm_3_DIGIT10'],
		['UF_CRM_3_DIGIT_10', 'ufCrm_3_DIGIT_10'],
		['UF_CRM_TROUBLE_CONTACT', 'ufCrmTroubleContact'],
	])('%s is %s [DOC]', async (name, camelName) => {
		const standIn = await portal({ fields: [{ name, type: 'string' }] });
		const { body } = await call<{ fields: Row }>(standIn, 'crm.item.fields', { entityTypeId: 3 });
		expect(body.result.fields[camelName]).toMatchObject({ upperName: name });
	});
});
