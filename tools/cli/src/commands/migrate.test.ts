import { urlAs } from '@contacts/migrations/roles.js';
import { rolePassword } from '@contacts/testing/database.js';
import postgres from 'postgres';
import { expect, onTestFinished, test } from 'vitest';
import { contacts, expectOneLine } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

test('brings an empty database up to date, once for several concurrent runs, and the next run reports that it is', async () => {
	const { url, sql } = await ownDatabase('template0');
	const outcomes = await Promise.all([1, 2, 3].map(() => contacts(url, ['migrate'])));
	expect(outcomes.map(({ code }) => code)).toEqual([0, 0, 0]);
	expect(outcomes.filter(({ stdout }) => stdout.startsWith('Applied: '))).toHaveLength(1);
	expect(await sql`select from projects`).toEqual([]);
	expect(await contacts(url, ['migrate'])).toEqual({ code: 0, stdout: 'The schema is up to date.\n', stderr: '' });
});

test('a run that waits for another session says for which one on standard error', async () => {
	const { url } = await ownDatabase();
	const other = postgres(url, { max: 1, connection: { application_name: 'another run' } });
	onTestFinished(() => other.end());
	await other`select pg_advisory_lock(4021967233)`;
	const running = contacts(url, ['migrate']);
	const waiting = () => other`
		select from pg_stat_activity where datname = current_database() and wait_event = 'advisory'`;
	await expect.poll(waiting).toHaveLength(1);
	await other`select pg_advisory_unlock_all()`;
	expect(await running).toEqual({
		code: 0,
		stdout: 'The schema is up to date.\n',
		stderr: expect.stringMatching(/^Waiting up to 120 seconds .+ "another run" \(user postgres, process \d+\)\.\n$/),
	});
});

test('who does not own the database is told so, and changes nothing', async () => {
	const { url, sql } = await ownDatabase();
	await sql`revoke select on company_contacts from contacts_backup`;
	const outcome = await contacts(urlAs(url, 'operator', rolePassword), ['migrate']);
	expectOneLine(outcome, 1, 'Only the owner of the database can migrate it');
	expect(await sql`select has_table_privilege('contacts_backup', 'company_contacts', 'select') as may`).toEqual([
		{ may: false },
	]);
});
