import { expect, test } from 'vitest';
import { createCompanyContactsClient } from './index.js';
import { list, startServer } from './testing/scripted-server.js';

test('an unchanged list is not sent again: the client returns the remembered list with changed: false', async () => {
	const times = { 'last-modified': 'Tue, 04 Nov 2025 09:12:31 GMT', 'contacts-synced-at': '2025-11-04T09:30:00.000Z' };
	const { asked, company } = await startServer(
		list(['Alice'], { etag: '"1"' }),
		{ status: 304, headers: { etag: '"1"', ...times } },
		list(['Bob'], { etag: '"2"' }),
	);
	const first = await company.list();
	const second = await company.list();
	const third = await company.list();
	expect(second.contacts).toBe(first.contacts);
	expect([first, second, third].map(({ changed }) => changed)).toEqual([true, false, true]);
	expect(second.modifiedAt).toEqual(new Date('2025-11-04T09:12:31Z'));
	expect(second.syncedAt).toEqual(new Date('2025-11-04T09:30:00Z'));
	expect(third.contacts).toMatchObject([{ name: 'Bob' }]);
	expect(asked.map(({ ifNoneMatch }) => ifNoneMatch)).toEqual([undefined, '"1"', '"1"']);
});

test('the most recently used lists are remembered per company, up to memoryBytes', async () => {
	const { asked, options } = await startServer(list(['x'.repeat(200)], { etag: '"1"' }));
	const tagsOf = async (memoryBytes: number) => {
		asked.length = 0;
		const client = createCompanyContactsClient({ ...options, memoryBytes });
		for (const companyId of [1, 2, 1, 3, 1, 2]) await client.list({ companyId });
		return asked.map(({ ifNoneMatch }) => ifNoneMatch !== undefined);
	};
	expect(await tagsOf(10_000)).toEqual([false, false, true, false, true, true]);
	// Two of them fit: list 3 replaces list 2.
	expect(await tagsOf(550)).toEqual([false, false, true, false, true, false]);
	expect(await tagsOf(0)).toEqual([false, false, false, false, false, false]);
});
