import { connectSingle } from '@contacts/common/database/connect.js';
import { database, test } from '@contacts/testing/test.js';
import { expect } from 'vitest';
import { addDemo } from './demo.js';

test('the demo is added as a whole, also after a start that failed while it was added', async () => {
	await database.sql`alter table company_contacts add constraint fails check (bitrix_id <> 1010)`;
	const first = connectSingle(database.url);
	await expect(addDemo(first)).rejects.toMatchObject({ code: '23514' });
	await first.end();
	await database.sql`alter table company_contacts drop constraint fails`;

	const second = connectSingle(database.url);
	await addDemo(second);
	expect(await second`select code from projects`).toEqual([{ code: 'demo' }]);
	expect(await second`select count(*)::int from company_contacts`).toEqual([{ count: 6 }]);
	await second.end();
});
