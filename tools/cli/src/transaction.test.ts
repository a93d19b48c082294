import { database, test } from '@contacts/testing/test.js';
import { expect } from 'vitest';
import { withTransaction } from './connection.js';

const environment = () => ({ DATABASE_URL: database.url, CONTACTS_ACTOR: 'somebody' });

/** The process of this connection at the server. */
const processOf = async (sql: typeof database.sql) => {
	const [{ pid }] = await sql<[{ pid: number }]>`select pg_backend_pid() as pid`;
	return pid;
};

test('a transaction whose connection is lost changes nothing and says so', async () => {
	const outcome = withTransaction(environment(), async (sql) => {
		await sql`insert into projects (code) values ('lost')`;
		await database.sql`select pg_terminate_backend(${await processOf(sql)})`;
		await sql`insert into projects (code) values ('outside')`;
	});
	await expect(outcome).rejects.toThrow('The connection to the database was lost; nothing was changed. Try again.');
	expect([...(await database.sql`select code from projects`)]).toEqual([]);
});

test('a transaction records its actor, and an error rolls all of it back', async () => {
	await withTransaction(environment(), (sql) => sql`insert into projects (code) values ('kept')`);
	const failed = withTransaction(environment(), async (sql) => {
		await sql`insert into projects (code) values ('undone')`;
		throw new Error('for a reason');
	});
	await expect(failed).rejects.toThrow('for a reason');
	expect([...(await database.sql`select actor, project from audit_log`)]).toEqual([
		{ actor: 'somebody', project: 'kept' },
	]);
});
