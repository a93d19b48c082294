import type { ContactRow } from '@contacts/common/contacts/company-contact-columns.sql.js';
import { describe, expect, test } from 'vitest';
import type { CrmContact, CustomField, FieldValue } from './bitrix24/contact.js';
import { type MappingOptions, mapContact, mappingVersion } from './mapping.js';

/** A custom field with options, by their IDs. */
const list = (options: Record<string, string>): CustomField => ({
	itemName: 'ufCrm_2',
	options: new Map(Object.entries(options)),
});
/** A custom field without options. */
const plain: CustomField = { itemName: 'ufCrm_1', options: undefined };
const nothing = { id: 1, names: [], phones: [], companyIds: [], assignedById: null, trouble: null, reason: null };

/** Maps a contact. A test provides only the relevant fields. */
const map = (
	changes: Partial<CrmContact>,
	options: Partial<MappingOptions> = {},
	fields: { trouble?: CustomField; reason?: CustomField } = {},
) =>
	mapContact(
		{ ...nothing, ...changes },
		{ trouble: plain, reason: plain, ...fields },
		{ country: undefined, troubleOptions: new Set(), ...options },
	);

test.each([
	[['Ivan', 'Ivanovich', 'Petrov'], 'Ivan Ivanovich Petrov'],
	[[' Ivan ', null, '\tPetrov\n'], 'Ivan Petrov'],
	[['Anna  Maria', '', null], 'Anna Maria'],
	[['Jose\u0301', '', ''], 'José'],
	[['', ' ', null], null],
	[['A\0B', 'C\ud800', 7], 'AB C\ufffd 7'],
])('name: %j is %j', (names, expected) => {
	expect(map({ names }).contact.name).toBe(expected);
});

test.each<['name' | 'perplexity_reason', number]>([
	['name', 1000],
	['perplexity_reason', 10_000],
])('a text that is longer than the table allows is cut by characters, and counted: %s', (column, max) => {
	const face = '\u{1F600}';
	const mapped = (text: string) => {
		const { contact, unmapped } = map(column === 'name' ? { names: [text] } : { reason: text });
		return [contact[column], unmapped.join()];
	};
	expect(mapped(face.repeat(max))).toEqual([face.repeat(max), '']);
	expect(mapped(`x${face.repeat(max)}`)).toEqual([`x${face.repeat(max - 1)}`, column]);
	expect(mapped(`${'x'.repeat(max - 1)} y`)).toEqual(['x'.repeat(max - 1), column]);
});

describe('phone', () => {
	/** Phones as `KIND value`, with their places as IDs. */
	const phone = (values: string[], country?: 'RU' | 'DE') => {
		const phones = values.map((text, id) => {
			const [, kind = '', value = ''] = /^(\w+) (.*)$/.exec(text) ?? [];
			return { id, kind, value };
		});
		return map({ phones: phones.reverse() }, { country });
	};

	test.each<[string[], 'RU' | 'DE' | undefined, string | null]>([
		[['WORK +7 (912) 345-67-89'], undefined, '+79123456789'],
		[['WORK 8 (912) 345-67-89'], undefined, null],
		[['WORK 8 (912) 345-67-89'], 'RU', '+79123456789'],
		[['WORK 79123456789'], 'RU', '+79123456789'],
		[['WORK 8 912 345-67-89 доб. 123'], 'RU', '+79123456789'],
		[['WORK 8(912)345-67-89, 8(913)345-67-89'], 'RU', '+79123456789'],
		[['WORK 12; 8(913)345-67-89'], 'RU', '+79133456789'],
		[['WORK 8(912)345-67-89 вн.5'], 'RU', '+79123456789'],
		[['WORK тел. 8(912)345-67-89'], 'RU', '+79123456789'],
		[['WORK 375291234567'], 'RU', '+375291234567'],
		[['WORK 80291234567'], 'RU', null],
		// Sixteen digits: E.164 allows fifteen.
		[['WORK +49 89 1234567-12345'], 'DE', null],
		[['MOBILE 089 1234567-12345', 'WORK +493012345678'], 'DE', '+493012345678'],
		[['HOME +442079460101', 'MOBILE +79123456789', 'WORK +493012345678'], undefined, '+79123456789'],
		[['OTHER +442079460101', 'HOME +493012345678'], undefined, '+493012345678'],
		[['MOBILE 12', 'SKYPE_OUT +442079460101'], undefined, '+442079460101'],
		[['FAX +442079460101', 'PAGER +493012345678'], undefined, null],
		[['WORK +442079460101', 'WORK +442079460102'], undefined, '+442079460101'],
	])('%j with %s is %s', (values, country, expected) => {
		expect(phone(values, country).contact.phone).toBe(expected);
	});

	test('an invalid number is counted, and an empty one is not', () => {
		expect(phone(['WORK 12']).unmapped).toEqual(['phone']);
		expect(phone(['FAX 12']).unmapped).toEqual([]);
		expect(phone([]).unmapped).toEqual([]);
	});
});

test.each([
	[[27, '31', 27], [27, 31], []],
	[[], null, []],
	[[0, -1, 'x', 5], [5], ['company_ids']],
])('company_ids: %j is %j', (companyIds, expected, unmapped) => {
	expect(map({ companyIds })).toMatchObject({ contact: { company_ids: expected }, unmapped });
});

test.each([
	[6, 6],
	['6', 6],
	[0, null],
	['', null],
	['x', null],
])('assigned_by_id: %j is %j', (assignedById, expected) => {
	expect(map({ assignedById }).contact.assigned_by_id).toBe(expected);
});

describe('trouble_contact', () => {
	test.each<[boolean, (FieldValue | FieldValue[])[]]>([
		[true, ['Y', 'y', '1', 1, true, 'true', ['N', 'Y']]],
		[false, ['N', '0', 0, false, 'false', '', null, []]],
	])('is %j for %j', (expected, values) => {
		for (const trouble of values)
			expect(map({ trouble })).toMatchObject({ contact: { trouble_contact: expected }, unmapped: [] });
	});

	test('an unknown word counts as unmapped, not as trouble', () => {
		expect(map({ trouble: 'maybe' })).toMatchObject({
			contact: { trouble_contact: false },
			unmapped: ['trouble_contact'],
		});
	});

	test.each([
		[79, true],
		['80', true],
		['81', false],
		[['81', '79'], true],
		[0, false],
	])('of a list: %j is %j', (trouble, expected) => {
		const options = { troubleOptions: new Set(['79', 'Refuses to pay']) };
		const fields = { trouble: list({ 79: 'Late', 80: 'Refuses to pay', 81: 'Fine' }) };
		expect(map({ trouble }, options, fields).contact.trouble_contact).toBe(expected);
	});
});

describe('perplexity_reason', () => {
	test.each([
		[' two  words\n', 'two  words'],
		['0', '0'],
		[5, '5'],
		['', null],
		[false, null],
		[[], null],
		[['a', '', ' b '], 'a; b'],
	])('%j is %j', (reason, expected) => {
		expect(map({ reason })).toMatchObject({ contact: { perplexity_reason: expected }, unmapped: [] });
	});

	test.each([
		['79', 'Late'],
		[['80', 79], 'Fine; Late'],
		['0', null],
	])('of a list: %j is %j', (reason, expected) => {
		const mapped = map({ reason }, {}, { reason: list({ 79: ' Late ', 80: 'Fine' }) });
		expect(mapped).toMatchObject({ contact: { perplexity_reason: expected }, unknownOption: false });
	});
});

test('an unknown option is left out, and causes the fields to be read again', () => {
	const fields = { trouble: list({ 79: 'Late' }), reason: list({ 79: 'Late' }) };
	expect(map({ trouble: '99', reason: ['79', '99'] }, {}, fields)).toMatchObject({
		contact: { trouble_contact: false, perplexity_reason: 'Late' },
		unknownOption: true,
		unmapped: ['trouble_contact', 'perplexity_reason'],
	});
});

test('a contact becomes the row of this version: another row needs a higher one', () => {
	const rows: Record<number, ContactRow> = {
		3: {
			bitrix_id: 1,
			phone: '+442079460101',
			company_ids: [7, 1],
			name: 'Anna Weber',
			assigned_by_id: 5,
			trouble_contact: true,
			perplexity_reason: 'Late; Rude',
		},
	};
	const { contact } = map({
		names: ['Anna ', null, 'Weber'],
		phones: [
			{ id: 1, kind: 'FAX', value: '+44 20 7946 0100' },
			{ id: 2, kind: 'WORK', value: '(+44) 20 7946 0101 (5)' },
		],
		companyIds: ['7', 1],
		assignedById: '5',
		trouble: 'Y',
		reason: ['Late', 'Rude'],
	});
	expect(contact).toEqual(rows[mappingVersion]);
});
