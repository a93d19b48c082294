import { maxCharacters } from '@contacts/common/company-contacts/company-contact-columns.sql.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { contactOf, readItem } from './bitrix24/contact.js';
import { mapContact } from './mapping.js';
import { map, plain } from './testing/mapping.js';

describe('name', () => {
	test.each([
		[['Ivan', 'Ivanovich', 'Petrov'], 'Ivan Ivanovich Petrov'],
		[[' Ivan ', null, '\tPetrov\n'], 'Ivan Petrov'],
		[['Anna  Maria', '', null], 'Anna Maria'],
		[['Jose\u0301', '', ''], 'José'],
		[['', ' ', null], null],
		[['A\0B', 'C\ud800', 7], 'AB C\ufffd 7'],
	])('%j is %j', (names, expected) => {
		expect(map({ names }).contact.name).toBe(expected);
	});
});

describe('a text that is longer than the table allows is cut by characters, and counted', () => {
	const face = '\u{1F600}';

	test.each<[string, string, string]>([
		['x'.repeat(1000), 'x'.repeat(1000), ''],
		[face.repeat(1000), face.repeat(1000), ''],
		['x'.repeat(1001), 'x'.repeat(1000), 'name'],
		[`x${face.repeat(1000)}`, `x${face.repeat(999)}`, 'name'],
		[`${'x'.repeat(999)} y`, 'x'.repeat(999), 'name'],
	])('a name', (name, expected, counted) => {
		const { contact, unmapped } = map({ names: [name] });
		expect([contact.name === expected, unmapped.join()]).toEqual([true, counted]);
	});

	test.each<[string | string[], string, string]>([
		[face.repeat(10_000), face.repeat(10_000), ''],
		[`x${face.repeat(10_000)}`, `x${face.repeat(9999)}`, 'perplexity_reason'],
		[['x'.repeat(6000), 'y'.repeat(6000)], `${'x'.repeat(6000)}; ${'y'.repeat(3998)}`, 'perplexity_reason'],
	])('a reason', (reason, expected, counted) => {
		const { contact, unmapped } = map({ reason });
		expect([contact.perplexity_reason === expected, unmapped.join()]).toEqual([true, counted]);
	});

	test('the table accepts texts of these lengths, and no longer ones', async () => {
		const insert = (name: string, reason: string) =>
			database.sql`insert into company_contacts (bitrix_id, name, perplexity_reason) values (1, ${name}, ${reason})`;
		const [name, reason] = [face.repeat(maxCharacters.name), face.repeat(maxCharacters.perplexity_reason)];
		await insert(name, reason);
		await database.sql`delete from company_contacts`;
		for (const [longName, longReason] of [
			[`${name}x`, reason],
			[name, `${reason}x`],
		] as const)
			await expect(insert(longName, longReason)).rejects.toMatchObject({ code: '23514' });
	});
});

describe('phone', () => {
	const phone = (values: [kind: string, value: string, id?: number][], country?: 'RU' | 'DE') =>
		map({ phones: values.map(([kind, value, id], index) => ({ kind, value, id: id ?? index })) }, { country });

	test.each<[[string, string, number?][], 'RU' | 'DE' | undefined, string | null]>([
		[[['WORK', '+7 (912) 345-67-89']], undefined, '+79123456789'],
		[[['WORK', '8 (912) 345-67-89']], undefined, null],
		[[['WORK', '8 (912) 345-67-89']], 'RU', '+79123456789'],
		[[['WORK', '79123456789']], 'RU', '+79123456789'],
		[[['WORK', '9123456789']], 'RU', '+79123456789'],
		[[['WORK', '8 912 345-67-89 доб. 123']], 'RU', '+79123456789'],
		[[['WORK', '8(912)345-67-89, 8(913)345-67-89']], 'RU', '+79123456789'],
		[[['WORK', '12; 8(913)345-67-89']], 'RU', '+79133456789'],
		[[['WORK', '8(912)345-67-89 вн.5']], 'RU', '+79123456789'],
		[[['WORK', 'тел. 8(912)345-67-89']], 'RU', '+79123456789'],
		[[['WORK', '375291234567']], 'RU', '+375291234567'],
		[[['WORK', '375291234567']], undefined, null],
		[[['WORK', '80291234567']], 'RU', null],
		[[['WORK', '112']], 'RU', null],
		[[['WORK', '1234']], 'RU', null],
		// Sixteen digits: E.164 allows fifteen.
		[[['WORK', '+49 89 1234567-12345']], 'DE', null],
		[[['WORK', '+49 89 1234567-1234']], 'DE', '+498912345671234'],
		[[['WORK', '+49 89 1234567-12345, +493012345678']], undefined, '+493012345678'],
		[
			[
				['MOBILE', '089 1234567-12345'],
				['WORK', '+493012345678'],
			],
			'DE',
			'+493012345678',
		],
		[
			[
				['WORK', 'none'],
				['HOME', ''],
			],
			'RU',
			null,
		],
		[
			[
				['HOME', '+442079460101'],
				['MOBILE', '+79123456789'],
				['WORK', '+493012345678'],
			],
			undefined,
			'+79123456789',
		],
		[
			[
				['HOME', '+442079460101'],
				['WORK', '+493012345678'],
			],
			undefined,
			'+493012345678',
		],
		[
			[
				['OTHER', '+442079460101'],
				['HOME', '+493012345678'],
			],
			undefined,
			'+493012345678',
		],
		[
			[
				['MOBILE', '12'],
				['SKYPE_OUT', '+442079460101'],
			],
			undefined,
			'+442079460101',
		],
		[
			[
				['FAX', '+442079460101'],
				['PAGER', '+493012345678'],
			],
			undefined,
			null,
		],
		[
			[
				['WORK', '+442079460102', 9],
				['WORK', '+442079460101', 3],
			],
			undefined,
			'+442079460101',
		],
	])('%j with %s is %s', (values, country, expected) => {
		expect(phone(values, country).contact.phone).toBe(expected);
	});

	test('an invalid number is counted, and an empty one is not', () => {
		expect(phone([['WORK', '12']]).unmapped).toEqual(['phone']);
		expect(phone([['FAX', '12']]).unmapped).toEqual([]);
		expect(phone([]).unmapped).toEqual([]);
	});
});

describe('company_ids', () => {
	test.each([
		[
			[27, 31],
			[27, 31],
		],
		[
			['31', 27, 31],
			[31, 27],
		],
		[[], null],
		[[0, -1, 'x', 5], [5]],
	])('%j is %j', (companyIds, expected) => {
		expect(map({ companyIds }).contact).toMatchObject({ company_ids: expected });
	});
});

test.each([
	[6, 6],
	['6', 6],
	[0, null],
	['0', null],
	['', null],
	[null, null],
	['x', null],
])('assigned_by_id: %j is %j', (assignedById, expected) => {
	expect(map({ assignedById }).contact.assigned_by_id).toBe(expected);
});

test('a row of the portal is mapped to all columns', () => {
	const fields = { trouble: plain, reason: undefined };
	const item = readItem(
		{
			id: 75,
			name: 'Anna',
			lastName: 'Weber',
			secondName: null,
			assignedById: 6,
			companyId: 31,
			companyIds: [27, 31],
			fm: [
				{ id: 1, typeId: 'PHONE', valueType: 'WORK', value: '+49 30 12345678' },
				{ id: 2, typeId: 'EMAIL', valueType: 'WORK', value: 'a@example.com' },
			],
			ufCrm_1: 'Y',
		},
		fields,
	);
	const contact = item && contactOf(item);
	if (contact === undefined) throw new Error('no contact');
	expect(mapContact(contact, fields, { country: undefined, troubleOptions: new Set<string>() }).contact).toEqual({
		bitrix_id: 75,
		phone: '+493012345678',
		company_ids: [31, 27],
		name: 'Anna Weber',
		assigned_by_id: 6,
		trouble_contact: true,
		perplexity_reason: null,
	});
});
