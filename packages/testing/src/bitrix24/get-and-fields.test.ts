import { expect, it } from 'vitest';
import type { UserField } from './stand-in.js';
import { call, itemList, portal } from './testing/client.js';

const fields: UserField[] = [
	{ name: 'UF_CRM_1700000000001', type: 'boolean', title: 'Trouble' },
	{ name: 'UF_CRM_1700000000003', type: 'enumeration', items: [{ id: 79, value: 'Price' }] },
];

it('crm.item.get returns an item, NOT_FOUND or ACCESS_DENIED [DOC]', async () => {
	const standIn = await portal({ fields });
	standIn.add({ id: 1, name: 'A', uf: { UF_CRM_1700000000001: true } });
	standIn.add({ id: 2, readable: false });
	const get = (id: unknown, more: object = {}) => call(standIn, 'crm.item.get', { entityTypeId: 3, id, ...more });
	expect((await get(1)).body.result.item).toMatchObject({ id: 1, fm: [], ufCrm_1700000000001: 'Y' });
	expect((await get('1', { useOriginalUfNames: 'Y' })).body.result.item).toMatchObject({ UF_CRM_1700000000001: 'Y' });
	expect(await get(3)).toMatchObject({
		status: 400,
		body: { error: 'NOT_FOUND', error_description: 'Element not found' },
	});
	expect(await get(2)).toMatchObject({ status: 400, body: { error: 'ACCESS_DENIED' } });
	expect(await call(standIn, 'crm.item.get', { entityTypeId: 3 })).toMatchObject({
		status: 400,
		body: { error: '100' },
	});
});

it('descriptions of errors are in the language of the portal [FIELD]', async () => {
	const standIn = await portal({ switches: { language: 'ru' } });
	const { body } = await call(standIn, 'crm.item.get', { entityTypeId: 3, id: 1 });
	expect(body).toEqual({ error: 'NOT_FOUND', error_description: 'Элемент не найден' });
});

it('crm.item.fields describes fields, custom ones with their original names [DOC]', async () => {
	const standIn = await portal({ fields });
	const { body } = await call(standIn, 'crm.item.fields', { entityTypeId: 3 });
	expect(body.result.fields).toMatchObject({
		id: { type: 'integer', isReadOnly: true, upperName: 'ID' },
		assignedById: { type: 'user', upperName: 'ASSIGNED_BY_ID' },
		companyIds: { type: 'crm_company', isMultiple: true },
		fm: { type: 'crm_multifield', isMultiple: true },
		ufCrm_1700000000001: { type: 'boolean', isDynamic: true, title: 'Trouble', upperName: 'UF_CRM_1700000000001' },
		ufCrm_1700000000003: { type: 'enumeration', items: [{ ID: '79', VALUE: 'Price' }] },
	});
	const original = await call(standIn, 'crm.item.fields', { entityTypeId: 3, useOriginalUfNames: 'Y' });
	expect(original.body.result.fields).toHaveProperty('UF_CRM_1700000000001');
});

it('describes the field companies and companyIds, but rows have companyIds only [DOC]', async () => {
	const standIn = await portal();
	standIn.add({ companyIds: [7] });
	const { body } = await call(standIn, 'crm.item.fields', { entityTypeId: 3 });
	expect(body.result.fields).toHaveProperty('companies');
	expect((await itemList(standIn)).body.result.items[0]).not.toHaveProperty('companies');
});

it.each([
	['insufficient_scope', 401, 'insufficient_scope'],
	['method_not_found', 404, 'ERROR_METHOD_NOT_FOUND'],
] as const)('a webhook without the scope crm gets %s [DOC]', async (missingScope, status, error) => {
	const standIn = await portal({ scopes: ['user'], switches: { missingScope } });
	expect(await itemList(standIn)).toMatchObject({ status, body: { error } });
	const { status: open, body } = await call(standIn, 'profile');
	expect([open, body.result]).toEqual([200, expect.objectContaining({ ID: '1', ADMIN: false })]);
});
