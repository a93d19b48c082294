import { describe, expect, it } from 'vitest';
import { sampleContacts, sampleFieldNames } from './sample-contacts.js';

describe('sample contacts', () => {
	it('are the same for the same seed', () => {
		expect(sampleContacts(50, 3)).toEqual(sampleContacts(50, 3));
		expect(sampleContacts(50, 3)).not.toEqual(sampleContacts(50, 4));
		expect(sampleContacts(50, 3)).toEqual(sampleContacts(80, 3).slice(0, 50));
	});

	it('are of all kinds', () => {
		const contacts = sampleContacts(2000, 1);
		const has = (what: (contact: (typeof contacts)[number]) => boolean) => contacts.some(what);
		for (const script of ['Latin', 'Cyrillic', 'Han', 'Arabic', 'Greek', 'Georgian', 'Hiragana']) {
			expect(
				has(({ name }) => new RegExp(`\\p{Script=${script}}`, 'u').test(name ?? '')),
				script,
			).toBe(true);
		}
		const companies = new Set(contacts.map(({ companyIds }) => companyIds?.length));
		expect(companies).toEqual(new Set([0, 1, 2, 3, 12]));
		expect(has(({ companyIds }) => new Set(companyIds).size !== companyIds?.length)).toBe(false);
		expect(has(({ phones }) => phones?.length === 0)).toBe(true);
		expect(has(({ phones }) => phones?.some(({ value }) => value === 'ask the secretary') ?? false)).toBe(true);
		for (const name of Object.values(sampleFieldNames)) {
			expect(has(({ uf }) => uf?.[name] !== undefined)).toBe(true);
			expect(has(({ uf }) => uf?.[name] === undefined)).toBe(true);
		}
		const phoneIds = contacts
			.flatMap(({ phones, emails }) => [...(phones ?? []), ...(emails ?? [])])
			.map(({ id }) => id);
		expect(new Set(phoneIds).size).toBe(phoneIds.length);
	});
});
