import { expect, test } from 'vitest';
import { sampleContacts, sampleFields } from './sample-contacts.js';
import { ids, itemList, portal, upTo } from './testing/client.js';

test('25,000 sample contacts are listed in 500 pages, and the last pages are not much slower than the first', async () => {
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
