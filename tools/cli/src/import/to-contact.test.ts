import { describe, expect, test } from 'vitest';
import { RecordError, toContact } from './to-contact.js';

const reasonOf = (fields: Record<string, unknown>) => {
	try {
		toContact(fields);
	} catch (error) {
		if (error instanceof RecordError) return error.message;
		throw error;
	}
	return 'taken';
};

describe('a record is accepted', () => {
	test.each<[string, Record<string, unknown>, object]>([
		['nothing but a bitrix_id', { bitrix_id: '1' }, {}],
		['numbers for IDs', { bitrix_id: 1, assigned_by_id: 9007199254740991 }, { assigned_by_id: 9007199254740991 }],
		[
			'white space around every value',
			{ bitrix_id: ' 1\t', name: ' a b ', phone: ' +79001234567 ' },
			{ name: 'a b', phone: '+79001234567' },
		],
		[
			'white space alone is nothing',
			{ bitrix_id: '1', name: ' \t', phone: ' ', company_ids: ' ' },
			{ name: null, phone: null, company_ids: null },
		],
		[
			'companies in their order, each once, and the largest',
			{ bitrix_id: '1', company_ids: '7, 1,7 ,9223372036854775807' },
			{ company_ids: ['7', '1', '9223372036854775807'] },
		],
		['a phone as people write it', { bitrix_id: '1', phone: '+7 (900) 123-45-67' }, { phone: '+79001234567' }],
		['a phone without its extension', { bitrix_id: '1', phone: '+12025550103 ext. 5' }, { phone: '+12025550103' }],
		['the text true', { bitrix_id: '1', trouble_contact: ' true ' }, { trouble_contact: true }],
		['the JSON true', { bitrix_id: '1', trouble_contact: true }, { trouble_contact: true }],
		['the JSON false', { bitrix_id: '1', trouble_contact: false }, { trouble_contact: false }],
		['the JSON null for the flag', { bitrix_id: '1', trouble_contact: null }, { trouble_contact: false }],
		['line breaks in a text', { bitrix_id: '1', perplexity_reason: 'a\r\nb' }, { perplexity_reason: 'a\r\nb' }],
		['an id, whatever it is', { bitrix_id: '1', id: ['x'] }, {}],
	])('%s', (_, fields, expected) => {
		expect(toContact(fields)).toStrictEqual({ bitrix_id: 1, ...expected });
	});

	test('with a national number when the country is known', () => {
		expect(toContact({ bitrix_id: '1', phone: '8 (900) 123-45-68' }, 'RU').phone).toBe('+79001234568');
		expect(toContact({ bitrix_id: '1', phone: '+442079460101' }, 'RU').phone).toBe('+442079460101');
	});
});

describe('a record is refused, with a reason that names the field and never the value', () => {
	const notId = 'not a positive integer up to 9007199254740991';
	const notCompanies = 'company_ids: not positive integers separated by commas';

	test.each([undefined, null, '', ' '])('bitrix_id missing: %j', (bitrix_id) => {
		expect(reasonOf({ bitrix_id })).toBe('bitrix_id: missing');
	});

	test.each(['0', '-1', '+1', '01', '1.5', '1e3', '0x1', '١', '9007199254740992', '1 2', 0, -1, 1.5, 2 ** 53, 1e300])(
		'bitrix_id and assigned_by_id: %j',
		(value) => {
			expect(reasonOf({ bitrix_id: value })).toBe(`bitrix_id: ${notId}`);
			expect(reasonOf({ bitrix_id: '1', assigned_by_id: value })).toBe(`assigned_by_id: ${notId}`);
		},
	);

	test.each([true, [], {}])('no text in a text field: %j', (value) => {
		for (const field of ['bitrix_id', 'phone', 'company_ids', 'name', 'assigned_by_id', 'perplexity_reason']) {
			expect(reasonOf({ bitrix_id: '1', [field]: value })).toBe(`${field}: not a text`);
		}
	});

	test.each(['a\0b', 'a\ud800', '\udc00b', 'a\uFFFD'])(
		'a character that can’t be stored, or stands for bytes that are not UTF-8: %j',
		(value) => {
			for (const field of ['bitrix_id', 'phone', 'company_ids', 'name', 'trouble_contact', 'perplexity_reason']) {
				expect(reasonOf({ bitrix_id: '1', [field]: value })).toBe(
					`${field}: a character that can't be stored, or is not UTF-8`,
				);
			}
		},
	);

	test.each([
		['name', 1000],
		['perplexity_reason', 10_000],
	])('%s: longer than %i characters', (field, max) => {
		const text = '\u{1F600}'.repeat(max);
		expect(reasonOf({ bitrix_id: '1', [field]: ` ${text} ` })).toBe('taken');
		expect(reasonOf({ bitrix_id: '1', [field]: `${text}x` })).toBe(`${field}: longer than ${max} characters`);
	});

	test.each(['0', '1,0', 'x', '1,x', '1,,2', ',', '1,', '1;2', '-1', '1.5', '9223372036854775808', '{1,2}', '[1]'])(
		'company_ids: %j',
		(value) => {
			expect(reasonOf({ bitrix_id: '1', company_ids: value })).toBe(notCompanies);
		},
	);

	test.each([
		'12',
		'89001234567',
		'+7900',
		'+79001234567890123',
		'+49 89 1234567-12345',
		'call +79001234567',
		'+',
		'none',
	])('phone: %j', (value) => {
		expect(reasonOf({ bitrix_id: '1', phone: value })).toMatch(/^phone: not a valid number with a leading plus/);
	});

	test.each(['yes', 'false', 'TRUE', '1', 'Y'])('trouble_contact: %j', (value) => {
		expect(reasonOf({ bitrix_id: '1', trouble_contact: value })).toBe('trouble_contact: neither "true" nor empty');
	});

	test('an unknown field', () => {
		expect(reasonOf({ bitrix_id: '1', Name: 'a' })).toBe('a field that is not known');
		expect(reasonOf(JSON.parse('{"bitrix_id":"1","__proto__":{"name":"a"}}'))).toBe('a field that is not known');
	});
});
