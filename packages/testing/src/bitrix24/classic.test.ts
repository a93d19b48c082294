import { describe, expect, it } from 'vitest';
import type { UserField } from './stand-in.js';
import { addMany, call, ids, noon, portal, type Row, upTo } from './testing/client.js';

const fields: UserField[] = [
	{ name: 'UF_CRM_1700000000001', type: 'boolean' },
	{ name: 'UF_CRM_1700000000002', type: 'string' },
	{ name: 'UF_CRM_1700000000003', type: 'enumeration', items: [{ id: 79, value: 'Price' }] },
	{ name: 'UF_CRM_1700000000005', type: 'string', multiple: true },
];

const full = {
	id: 75,
	name: 'Anastasia',
	assignedById: 6,
	companyIds: [12, 7],
	phones: [{ id: 156, valueType: 'WORK', value: '+13333333555' }],
	uf: { UF_CRM_1700000000001: true, UF_CRM_1700000000003: 79, UF_CRM_1700000000005: ['a'] },
};

describe('crm.contact.list', () => {
	it('returns text, multifields only by name, and never COMPANY_IDS [DOC] [REC]', async () => {
		const standIn = await portal({ fields });
		standIn.add(full);
		const { body } = await call<Row[]>(standIn, 'crm.contact.list');
		const [row] = body.result;
		expect(row).toMatchObject({
			ID: '75',
			NAME: 'Anastasia',
			SECOND_NAME: null,
			ASSIGNED_BY_ID: '6',
			COMPANY_ID: '12',
			HAS_PHONE: 'Y',
			DATE_MODIFY: '2026-08-20T09:10:29+03:00',
			UF_CRM_1700000000001: '1',
			UF_CRM_1700000000002: '',
			UF_CRM_1700000000003: '79',
			UF_CRM_1700000000005: ['a'],
		});
		for (const name of ['PHONE', 'COMPANY_IDS', 'CATEGORY_ID', 'phone', 'fm']) expect(row).not.toHaveProperty(name);
		expect(body).toMatchObject({ total: 1 });
	});

	it('selects by name and by mask; PHONE is absent when there is none [DOC]', async () => {
		const standIn = await portal({ fields });
		standIn.add(full);
		standIn.add({ id: 76 });
		const list = async (select: string[]) =>
			(await call<Row[]>(standIn, 'crm.contact.list', { SELECT: select })).body.result;
		expect(await list(['NAME', 'PHONE', 'COMPANY_IDS', 'NOTHING'])).toEqual([
			{
				ID: '75',
				NAME: 'Anastasia',
				PHONE: [{ ID: '156', VALUE_TYPE: 'WORK', VALUE: '+13333333555', TYPE_ID: 'PHONE' }],
			},
			{ ID: '76', NAME: null },
		]);
		const [star] = await list(['*']);
		expect(star).toHaveProperty('NAME');
		expect(star).not.toHaveProperty('UF_CRM_1700000000001');
		const [custom] = await list(['ID', 'UF_*']);
		expect(Object.keys(custom ?? {})).toEqual(['ID', ...fields.map((field) => field.name)]);
	});

	it('filters and orders by its own names; its parameters may be in upper or lower case [DOC]', async () => {
		const standIn = await portal();
		addMany(standIn, 4);
		standIn.update(2, { updatedTime: new Date(noon + 1000), phones: full.phones });
		const list = async (params: object) => ids(await call<Row[]>(standIn, 'crm.contact.list', params));
		expect(await list({ FILTER: { '>ID': 2 } })).toEqual(['3', '4']);
		expect(await list({ filter: { '>=DATE_MODIFY': '2026-08-20T09:10:30+03:00' } })).toEqual(['2']);
		expect(await list({ filter: { '!ID': 2 }, ORDER: { ID: 'DESC' } })).toEqual(['4', '3', '1']);
		expect(await list({ filter: { PHONE: '+13333333555' } })).toEqual(['2']);
		expect(await list({ start: -1, filter: { '>ID': 3 } })).toEqual(['4']);
	});

	it.each(['ignored', 'refused'] as const)('an unknown filter field is %s [??]', async (classicUnknownFilter) => {
		const standIn = await portal({ switches: { classicUnknownFilter } });
		addMany(standIn, 2);
		const response = await call<Row[]>(standIn, 'crm.contact.list', { filter: { '>id': 1 } });
		if (classicUnknownFilter === 'ignored') expect(ids(response)).toEqual(['1', '2']);
		else expect(response.status).toBe(400);
	});

	it.each([
		['first-page', upTo(50).map(String)],
		['empty', []],
	] as const)('beyond the end returns: %s [FIELD]', async (classicPastEnd, expected) => {
		const standIn = await portal({ switches: { classicPastEnd } });
		addMany(standIn, 60);
		const response = await call<Row[]>(standIn, 'crm.contact.list', { start: 100 });
		expect(ids(response)).toEqual(expected);
		expect(response.body.total).toBe(60);
	});

	it.each([
		['general', ['1']],
		['all', ['1', '2']],
	] as const)('returns contacts of %s categories unless one is named [??]', async (classicCategories, expected) => {
		const standIn = await portal({ switches: { classicCategories } });
		standIn.add({ id: 1 });
		standIn.add({ id: 2, categoryId: 15 });
		expect(ids(await call<Row[]>(standIn, 'crm.contact.list'))).toEqual(expected);
		expect(ids(await call<Row[]>(standIn, 'crm.contact.list', { filter: { CATEGORY_ID: 15 } }))).toEqual(['2']);
	});

	it.each([
		['null', 'no', 'digits', 'array', { company: null, b: '0', s: '', many: [] }],
		['zero', 'no', 'json', 'false', { company: '0', b: false, s: '', many: false }],
		['null', 'unset', 'digits', 'array', { company: null, b: '', s: '', many: [] }],
	] as const)(
		'returns unset values as its switches say: %s %s %s %s [REC] [DOC] [FIELD]',
		async (noCompany, unsetBooleanUf, classicBooleanUf, classicEmptyMultiple, expected) => {
			const switches = { noCompany, unsetBooleanUf, classicBooleanUf, classicEmptyMultiple };
			const standIn = await portal({ fields, switches });
			standIn.add({ id: 1 });
			standIn.add({ ...full, id: 2 });
			const [unset, set] = (await call<Row[]>(standIn, 'crm.contact.list')).body.result;
			expect(unset).toMatchObject({
				COMPANY_ID: expected.company,
				UF_CRM_1700000000001: expected.b,
				UF_CRM_1700000000002: expected.s,
				UF_CRM_1700000000005: expected.many,
			});
			expect(set?.UF_CRM_1700000000001).toBe(classicBooleanUf === 'json' ? true : '1');
		},
	);
});

it('crm.contact.get returns multifields; its errors have no code [DOC]', async () => {
	const standIn = await portal();
	standIn.add(full);
	standIn.add({ id: 76, readable: false });
	const get = (params: object) => call(standIn, 'crm.contact.get', params);
	const { body } = await get({ ID: 75 });
	expect(body.result).toMatchObject({ ID: '75', PHONE: [{ ID: '156' }] });
	expect(body.result).not.toHaveProperty('EMAIL');
	expect(body.result).not.toHaveProperty('COMPANY_IDS');
	const errorDescription = async (params: object) => {
		const response = await get(params);
		expect(response).toMatchObject({ status: 400, body: { error: '' } });
		return response.body.error_description;
	};
	expect(await errorDescription({ id: 99 })).toBe('Not found');
	expect(await errorDescription({ id: 76 })).toBe('Access denied.');
	expect(await errorDescription({})).toBe('ID is not defined or invalid.');
});

describe('crm.contact.company.items.get', () => {
	it('returns links in their order, as numbers [DOC]', async () => {
		const standIn = await portal();
		standIn.add({ id: 1, companyIds: [31, 7] });
		standIn.add({ id: 2 });
		const links = async (id: number) => (await call(standIn, 'crm.contact.company.items.get', { id })).body.result;
		expect(await links(1)).toEqual([
			{ COMPANY_ID: 31, SORT: 100, ROLE_ID: 0, IS_PRIMARY: 'Y' },
			{ COMPANY_ID: 7, SORT: 110, ROLE_ID: 0, IS_PRIMARY: 'N' },
		]);
		expect(await links(2)).toEqual([]);
	});

	it('may have more than one primary company [REC]', async () => {
		const standIn = await portal({ switches: { twoPrimaryCompanies: true } });
		standIn.add({ id: 1, companyIds: [31, 7] });
		const { body } = await call<Row[]>(standIn, 'crm.contact.company.items.get', { id: 1 });
		expect(body.result.map((link) => link.IS_PRIMARY)).toEqual(['Y', 'Y']);
	});

	it.each(['empty', 'access-denied'] as const)('of a contact that is gone is %s [??]', async (companiesOfMissing) => {
		const standIn = await portal({ switches: { companiesOfMissing } });
		const response = await call(standIn, 'crm.contact.company.items.get', { id: 5 });
		if (companiesOfMissing === 'empty') expect(response.body.result).toEqual([]);
		else expect(response).toMatchObject({ status: 400, body: { error: 'ACCESS_DENIED' } });
	});

	it('refuses a missing id with status 200, and a contact that may not be read with 400 [DOC]', async () => {
		const standIn = await portal();
		standIn.add({ id: 1, readable: false });
		expect(await call(standIn, 'crm.contact.company.items.get')).toMatchObject({ status: 200, body: { error: '' } });
		const denied = await call(standIn, 'crm.contact.company.items.get', { id: 1 });
		expect(denied).toMatchObject({ status: 400, body: { error: 'ACCESS_DENIED' } });
	});
});
