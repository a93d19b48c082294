import { expect, test } from 'vitest';
import { fromItem, linksOf } from './contact.js';

test('companies of the classic method: primary first, then by their sort, whoever claims to be primary', () => {
	const link = (COMPANY_ID: number, SORT: number, IS_PRIMARY: string) => ({ COMPANY_ID, SORT, IS_PRIMARY });
	expect(linksOf([link(7, 20, 'N'), link(8, 10, 'N'), link(9, 30, 'Y')])).toEqual([9, 8, 7]);
	expect(linksOf([link(7, 20, 'Y'), link(8, 10, 'Y')])).toEqual([8, 7]);
	expect(linksOf([])).toEqual([]);
	expect(linksOf({ error: 'x' })).toBe(undefined);
});

test.each([[[]], [null], ['x'], [{}], [{ id: 0 }], [{ id: -5 }], [{ id: 1.5 }], [{ id: 'abc' }], [{ id: 2 ** 53 }]])(
	'%j is no contact',
	(row) => {
		expect(fromItem(row, { trouble: undefined, reason: undefined })).toBe(undefined);
	},
);
