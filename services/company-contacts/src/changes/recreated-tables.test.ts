import { addProject, startTestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { service } from '../app.js';
import type { ChangesBody } from './testing/copy.js';

test('after pg_restore has recreated the tables in the same database, an earlier cursor gets 410', async () => {
	const { sql } = database;
	await addProject(sql, 'partner', 'partner-key');
	const app = await startTestApp(service, database.url);
	onTestFinished(() => app.close());
	const get = (rest = '') => app.fetch(`/api/company_contacts.changes?project=partner&api_key=partner-key${rest}`);
	await sql`insert into company_contacts (bitrix_id, name) values (1, 'one'), (2, 'two')`;
	// What a dump has of the tables.
	await sql.unsafe(`
		create table dumped_version (like company_contacts_version including all);
		insert into dumped_version select * from company_contacts_version;
		create table dumped_changes as table company_contacts_changes;
		create table dumped_contacts as table company_contacts`);
	await sql`update company_contacts set name = 'after the dump' where bitrix_id = 1`;
	const read = async () => (await (await get()).json()) as ChangesBody;
	await expect.poll(async () => JSON.stringify(await read()), { timeout: 20_000 }).toContain('after the dump');
	const { cursor } = await read();

	// One transaction. pg_restore creates the triggers after the rows, so none of them is executed.
	await sql.unsafe(`
		alter table company_contacts disable trigger user;
		delete from company_contacts;
		insert into company_contacts overriding system value select * from dumped_contacts;
		alter table company_contacts enable trigger user;
		delete from company_contacts_changes;
		insert into company_contacts_changes select * from dumped_changes;
		drop table company_contacts_version;
		alter table dumped_version rename to company_contacts_version;
		grant select on company_contacts_version to company_contacts_service`);
	// It takes the version that the reader has already seen.
	await sql`update company_contacts set name = 'after the restore' where bitrix_id = 2`;
	await expect.poll(async () => JSON.stringify(await read()), { timeout: 20_000 }).toContain('after the restore');
	await expectProblem(await get(`&cursor=${cursor}`), 410, 'cursor_expired');
});
