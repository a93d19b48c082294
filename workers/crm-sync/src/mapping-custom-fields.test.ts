import { describe, expect, test } from 'vitest';
import type { FieldValue } from './bitrix24/contact.js';
import { list, map } from './testing/mapping.js';

describe('trouble_contact', () => {
	test.each<[FieldValue | FieldValue[], boolean]>([
		...['Y', 'y', '1', 1, true, 'true', ['N', 'Y']].map((value): [FieldValue | FieldValue[], boolean] => [value, true]),
		...['N', '0', 0, false, 'false', '', null, []].map((value): [FieldValue | FieldValue[], boolean] => [value, false]),
	])('%j is %j', (trouble, expected) => {
		const { contact: row, unmapped } = map({ trouble });
		expect([row.trouble_contact, unmapped]).toEqual([expected, []]);
	});

	test('an unknown word counts as unmapped, not as trouble', () => {
		const { contact: row, unmapped } = map({ trouble: 'maybe' });
		expect([row.trouble_contact, unmapped]).toEqual([false, ['trouble_contact']]);
	});

	test.each([
		[79, true],
		['80', true],
		['81', false],
		[['81', '79'], true],
		['', false],
		[0, false],
	])('of a list: %j is %j', (trouble, expected) => {
		const options = { troubleOptions: new Set(['79', 'Refuses to pay']) };
		const fields = { trouble: list('UF_CRM_2', { 79: 'Late', 80: 'Refuses to pay', 81: 'Fine' }) };
		expect(map({ trouble }, options, fields).contact.trouble_contact).toBe(expected);
	});

	test('an unknown option causes the fields to be read again', () => {
		expect(map({ trouble: '99' }, {}, { trouble: list('UF_CRM_2', { 79: 'Late' }) })).toMatchObject({
			unknownOption: true,
			unmapped: ['trouble_contact'],
		});
	});
});

describe('perplexity_reason', () => {
	test.each([
		[' two  words\n', 'two  words'],
		['0', '0'],
		[5, '5'],
		['', null],
		[' ', null],
		[null, null],
		[false, null],
		[[], null],
		[['a', '', ' b '], 'a; b'],
	])('%j is %j', (reason, expected) => {
		const { contact: row, unmapped } = map({ reason });
		expect([row.perplexity_reason, unmapped]).toEqual([expected, []]);
	});

	test.each([
		['79', 'Late'],
		[79, 'Late'],
		[['80', '79'], 'Fine; Late'],
		['', null],
		['0', null],
		[null, null],
	])('of a list: %j is %j', (reason, expected) => {
		const fields = { reason: list('UF_CRM_3', { 79: ' Late ', 80: 'Fine' }) };
		expect(map({ reason }, {}, fields)).toMatchObject({
			contact: { perplexity_reason: expected },
			unknownOption: false,
		});
	});

	test('an unknown option is left out, and causes the fields to be read again', () => {
		const mapped = map({ reason: ['79', '99'] }, {}, { reason: list('UF_CRM_3', { 79: 'Late' }) });
		expect(mapped).toMatchObject({
			contact: { perplexity_reason: 'Late' },
			unknownOption: true,
			unmapped: ['perplexity_reason'],
		});
	});
});
