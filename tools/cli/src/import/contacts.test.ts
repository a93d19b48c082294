import { expect, test } from 'vitest';
import { toContact } from './contacts.js';
import { RecordError } from './parts.js';

const reasonOf = (fields: Record<string, unknown>) => {
	try {
		toContact(fields);
	} catch (error) {
		if (error instanceof RecordError) return error.message;
		throw error;
	}
	return 'taken';
};

test.each<[string, Record<string, unknown>, object]>([
	['nothing but a bitrix_id', { bitrix_id: '1' }, {}],
	['numbers for IDs', { bitrix_id: 1, assigned_by_id: 9007199254740991 }, { assigned_by_id: 9007199254740991 }],
	[
		'white space around every value',
		{ bitrix_id: ' 1\t', name: ' a b ', phone: ' +79001234567 ' },
		{ name: 'a b', phone: '+79001234567' },
	],
	[
		'white space alone, which is nothing',
		{ bitrix_id: '1', name: ' \t', phone: ' ', company_ids: ' ' },
		{ name: null, phone: null, company_ids: null },
	],
	[
		'companies in their order, each once, and the largest',
		{ bitrix_id: '1', company_ids: '7, 1,7 ,9223372036854775807' },
		{ company_ids: ['7', '1', '9223372036854775807'] },
	],
	...['true', ' true ', 'TRUE', 'ИСТИНА'].map((text): [string, Record<string, unknown>, object] => [
		`the text ${text}`,
		{ bitrix_id: '1', trouble_contact: text },
		{ trouble_contact: true },
	]),
	...['false', 'FALSE', 'ЛОЖЬ'].map((text): [string, Record<string, unknown>, object] => [
		`the text ${text}`,
		{ bitrix_id: '1', trouble_contact: text },
		{ trouble_contact: false },
	]),
	['line breaks and repeated spaces in a name', { bitrix_id: '1', name: 'a \r\n b' }, { name: 'a b' }],
	['a name of characters that do not print', { bitrix_id: '1', name: '\u200b\u00ad' }, { name: null }],
	['marks around a phone', { bitrix_id: '1', phone: '\u202a+7 (900) 123-45-67\u202c' }, { phone: '+79001234567' }],
	['the JSON false', { bitrix_id: '1', trouble_contact: false }, { trouble_contact: false }],
	['the JSON null for the flag', { bitrix_id: '1', trouble_contact: null }, { trouble_contact: false }],
	['an id, whatever it is', { bitrix_id: '1', id: ['x'] }, {}],
	['texts as long as they may be', { bitrix_id: '1', name: ` ${'🙂'.repeat(1000)} ` }, { name: '🙂'.repeat(1000) }],
])('a record is accepted with %s', (_, fields, expected) => {
	expect(toContact(fields)).toStrictEqual({ bitrix_id: 1, ...expected });
});

const notId = 'not a positive integer up to 9007199254740991';
const texts = ['phone', 'company_ids', 'name', 'perplexity_reason'];

test.each<[string[], string, unknown[]]>([
	[['bitrix_id'], 'missing', [undefined, null, '', ' ']],
	[
		['bitrix_id', 'assigned_by_id'],
		notId,
		['0', '-1', '+1', '01', '1.5', '1e3', '0x1', '١', '9007199254740992', '1 2', 0, -1, 1.5, 2 ** 53, 1e300],
	],
	[[...texts, 'bitrix_id', 'assigned_by_id'], 'not a text', [true, [], {}]],
	[
		[...texts, 'bitrix_id', 'trouble_contact'],
		"a character that can't be stored, or is not UTF-8",
		['a\0b', 'a\ud800', '\udc00b', 'a\uFFFD'],
	],
	[['name'], 'longer than 1000 characters', [`${'🙂'.repeat(1000)}x`]],
	[['perplexity_reason'], 'longer than 10000 characters', [`${'🙂'.repeat(10_000)}x`]],
	[
		['company_ids'],
		'not positive integers separated by commas',
		['0', '1,0', '1,x', '1,,2', ',', '1,', '1;2', '-1', '1.5', '9223372036854775808', '{1,2}'],
	],
	[['phone'], 'a number needs a leading plus and its country code', ['12', '89001234567', '8 (900) 123-45-67 (123)']],
	[['phone'], 'not a valid number of its country', ['+7900', '+79001234567890123', '+', '+7 900 123-45-67 12']],
	[
		['phone'],
		'more than one number, such as an extension or a remark',
		[
			'call +79001234567',
			'+7 900 123-45-67 (123)',
			'+79001234567, +79001234568',
			'+49 30 901820/21',
			'+79001234567 ext. 5',
		],
	],
	[['trouble_contact'], 'neither "true" nor "false" nor empty', ['yes', 'truth', '1']],
])(
	'the value of %s is refused, with a reason that names the field and never the value: %s',
	(names, reason, values) => {
		for (const name of names)
			for (const value of values) expect(reasonOf({ bitrix_id: '1', [name]: value })).toBe(`${name}: ${reason}`);
	},
);

test('an unknown field is refused', () => {
	expect(reasonOf({ bitrix_id: '1', Name: 'a' })).toBe('a field that is not known');
	expect(reasonOf(JSON.parse('{"bitrix_id":"1","__proto__":{"name":"a"}}'))).toBe('a field that is not known');
});
