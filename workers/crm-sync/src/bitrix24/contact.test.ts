import { expect, test } from 'vitest';
import { contactOf, customFieldsOf, readItem } from './contact.js';

const none = { trouble: undefined, reason: undefined };
const row = { id: 1, name: 'Anna', assignedById: 6, companyIds: [], fm: [] };
const read = (changes: object) => readItem({ ...row, ...changes }, none);

test.each([
	[null, [27, 31], [27, 31]],
	[27, [27, 31], [27, 31]],
	['31', ['27', '31'], [31, '27']],
	[31, [27], [31, 27]],
	[undefined, [27], [27]],
])('companyId %j with companyIds %j: the linked companies are %j', (companyId, companyIds, expected) => {
	expect(read({ companyId, companyIds })?.fields.companyIds).toEqual(expected);
});

test.each<[object, string]>([
	[{ companyIds: undefined }, 'companyIds'],
	[{ companyIds: {} }, 'companyIds'],
	[{ companyIds: [[27]] }, 'companyIds'],
	[{ fm: undefined }, 'phones'],
	[{ name: undefined }, 'names'],
	[{ name: undefined, lastName: ['Weber'] }, 'names'],
	[{ assignedById: undefined }, 'assignedById'],
])('a row with %j lacks a field, and says which: %s', (changes, field) => {
	const item = read(changes);
	expect(item?.absent).toEqual([field]);
	expect(item && contactOf(item)).toBe(undefined);
});

test.each<[object, string]>([
	[{ companyId: 31, companyIds: [] }, 'companyIds'],
	[{ fm: [], hasPhone: 'Y' }, 'phones'],
])('a row with %j is complete, and contradicts its own empty list: %s', (changes, list) => {
	expect(read(changes)).toMatchObject({ absent: [], contradicts: true, fields: { [list]: [] } });
});

test('a row without phones is complete if its CRM says that the contact has none', () => {
	expect(read({ fm: undefined, hasPhone: 'N' })?.fields.phones).toEqual([]);
});

test('null in place of a list is an empty list', () => {
	expect(read({ fm: null, companyIds: null })).toMatchObject({ absent: [], fields: { phones: [], companyIds: [] } });
});

test('an e-mail address is no phone', () => {
	const email = { id: 1, typeId: 'EMAIL', valueType: 'WORK', value: '+442079460101' };
	expect(read({ fm: [email] })?.fields.phones).toEqual([]);
});

test('labels of options are trimmed, so that a setting can name them', () => {
	const items = [
		{ ID: '79', VALUE: ' Blocked ' },
		{ ID: { toString: 1 }, VALUE: 'x' },
	];
	const all = { ufCrm_1: { upperName: 'UF_CRM_1', type: 'enumeration', items } };
	const { trouble } = customFieldsOf(all, { trouble: 'UF_CRM_1', reason: undefined });
	expect(trouble?.options).toEqual(new Map([['79', 'Blocked']]));
});

test.each(['string', 'integer', 'double', 'boolean', 'url'])(
	'a custom field of the type %s can be mirrored: it is one text, number or flag',
	(type) => {
		const all = { ufCrm_1: { upperName: 'UF_CRM_1', type } };
		const { reason } = customFieldsOf(all, { trouble: undefined, reason: 'UF_CRM_1' });
		expect(reason).toEqual({ itemName: 'ufCrm_1', options: undefined });
	},
);

test.each([
	...['file', 'money', 'date', 'datetime', 'address', 'employee', 'crm', 'crm_status'].map((type) => [type, type]),
	...['iblock_section', 'iblock_element', 'rest_7_colour'].map((type) => [type, type]),
	...[undefined, { toString: 1 }, 'x y', '\u001b[31m'].map((type) => [type, 'unknown']),
])('a custom field with the type %j is refused by its name, with a type only if that is a word', (type, named) => {
	const all = { ufCrm_1: { upperName: 'UF_CRM_1', type } };
	const find = () => customFieldsOf(all, { trouble: undefined, reason: 'UF_CRM_1' });
	expect(find).toThrow(`crm.item.fields: type_${named}_of_UF_CRM_1`);
});

test.each([[[]], [null], ['x'], [{}], [{ id: 0 }], [{ id: -5 }], [{ id: 1.5 }], [{ id: 'abc' }], [{ id: 2 ** 53 }]])(
	'%j is not a contact',
	(value) => {
		expect(readItem(value, none)).toBe(undefined);
	},
);
