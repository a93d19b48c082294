import { openDatabase } from '@contacts/common/database/database.js';
import { service } from '@contacts/personal-contacts/app.js';
import { addProject, startTestApp } from '@contacts/testing/app.js';
import { createTestDatabase } from '@contacts/testing/database.js';
import { expect, onTestFinished, test } from 'vitest';
import { statementsPerSecond } from './pgbench.js';
import { runSingleStatement, singleStatement, singleStatementValues } from './single-statement.sql.js';

test('the parser reads the rate from the reports of old and new versions of pgbench', () => {
	const report = (line: string) => `number of clients: 10\nlatency average = 1.8 ms\n${line}\n`;
	expect(statementsPerSecond(report('tps = 5387.123456 (without initial connection time)'))).toBe(5387.123456);
	const old = 'tps = 5300.1 (including connections establishing)\ntps = 5387.5 (excluding connections establishing)';
	expect(statementsPerSecond(report(old))).toBe(5387.5);
	expect(statementsPerSecond('pgbench: error: connection failed')).toBeUndefined();
});

test('pgbench receives every value of the statement except the chat, which it draws at random', () => {
	const names = new Set([...singleStatement.matchAll(/(?<!:):([a-z_]+)/g)].map(([, name]) => name));
	expect([...names].sort()).toEqual(['chat_id', ...Object.keys(singleStatementValues)].sort());
});

test('the single statement stores the same as the service', async () => {
	const { url, sql, drop } = await createTestDatabase();
	onTestFinished(drop);
	await addProject(sql, 'bench', 'key');
	const app = await startTestApp(service, url);
	onTestFinished(() => app.close());
	const database = openDatabase({ url, applicationName: 'test', poolSize: 1 });
	onTestFinished(() => database.close());
	await sql`insert into direct_subscriptions (chat_id) values (3), (13)`;

	const full = { username: 'u', name: 'n', birth_date: '1990-05-17' };
	for (const contact of [
		{ chat_id: 1, ...full },
		{ chat_id: 2, ...full },
		// An absent field keeps what is stored, null clears it.
		{ chat_id: 2, name: null },
		{ chat_id: 3, ...full },
	]) {
		const response = await app.fetch('/api/personal_contacts?project=bench&api_key=key', {
			method: 'POST',
			headers: { 'content-type': 'application/json' },
			body: JSON.stringify(contact),
		});
		const { ok } = (await response.json()) as { ok: string };
		const values = {
			...contact,
			chat_id: contact.chat_id + 10,
			project_id: 1,
			has_username: 'username' in contact,
			has_name: 'name' in contact,
			has_birth_date: 'birth_date' in contact,
		};
		expect(await database.query((client) => runSingleStatement(client, values))).toHaveLength(ok === 'saved' ? 1 : 0);
	}
	const rows = (from: number) => sql`
		select chat_id::int % 10 as chat, username, name, birth_date::text from personal_contacts
		where chat_id between ${from} and ${from + 9} order by chat_id`;
	expect(await rows(10)).toEqual(await rows(0));
	expect(await rows(10)).toHaveLength(2);
});
