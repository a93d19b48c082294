import { describe, expect, it } from 'vitest';
import { sampleContacts, sampleFieldNames, sampleFields } from './sample-contacts.js';
import { ids, itemList, portal, upTo } from './testing/client.js';

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

	it('25,000 of them are listed in 500 pages, the last ones as fast as the first ones', async () => {
		const standIn = await portal({ fields: sampleFields, contacts: sampleContacts(25_000, 1) });
		const times: number[] = [];
		const seen: unknown[] = [];
		let pages = 0;
		for (;;) {
			const filter = { '>id': seen.at(-1) ?? 0, categoryId: 0 };
			const begun = performance.now();
			const page = ids(await itemList(standIn, { select: ['*'], filter, order: { id: 'ASC' }, start: -1 }));
			if (page.length === 0) break;
			times.push(performance.now() - begun);
			seen.push(...page);
			pages++;
		}
		expect(pages).toBe(500);
		expect(seen).toEqual(upTo(25_000));
		const median = (some: number[]) => some.toSorted((a, b) => a - b)[some.length >> 1] ?? 0;
		expect(median(times.slice(-200)) / median(times.slice(0, 200))).toBeLessThan(5);
	});
});
