import { expect, test } from 'vitest';
import { customFieldsOf, fromItem, linksOf } from './contact.js';

test('companies of the classic method are sorted primary first, then by sort, even if several are primary', () => {
	const link = (COMPANY_ID: number, SORT: number, IS_PRIMARY: string) => ({ COMPANY_ID, SORT, IS_PRIMARY });
	expect(linksOf([link(7, 20, 'N'), link(8, 10, 'N'), link(9, 30, 'Y')])).toEqual([9, 8, 7]);
	expect(linksOf([link(7, 20, 'Y'), link(8, 10, 'Y')])).toEqual([8, 7]);
	expect(linksOf([])).toEqual([]);
	expect(linksOf({ error: 'x' })).toBe(undefined);
});

test('labels of options are trimmed, so that a setting can name them', () => {
	const items = [{ ID: '79', VALUE: ' Blocked ' }];
	const all = { ufCrm_1: { upperName: 'UF_CRM_1', type: 'enumeration', items } };
	const { trouble } = customFieldsOf(all, { trouble: 'UF_CRM_1', reason: undefined });
	expect(trouble?.options).toEqual(new Map([['79', 'Blocked']]));
});

test.each([[[]], [null], ['x'], [{}], [{ id: 0 }], [{ id: -5 }], [{ id: 1.5 }], [{ id: 'abc' }], [{ id: 2 ** 53 }]])(
	'%j is not a contact',
	(row) => {
		expect(fromItem(row, { trouble: undefined, reason: undefined })).toBe(undefined);
	},
);
