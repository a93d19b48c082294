import { join } from 'node:path';
import { startLocalPostgres } from '@contacts/local-postgres/local-postgres.js';
import { migrate } from '@contacts/migrations/migrate.js';
import { type RoleUser, setUpRoles, urlAs } from '@contacts/migrations/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { rolePassword, withConnection } from '@contacts/testing/database.js';
import { debianInstallation } from '@contacts/testing/debian-postgres.js';
import { type ProgramName, startService } from '@contacts/testing/services.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, onTestFinished, test } from 'vitest';

/** More than a page of the changes. */
const contacts = 2500;

// PostgreSQL compiles a statement when it expects a costly execution, and does so again for each execution: that takes up to half a
// second of processor time. The embedded PostgreSQL has no compiler.
test('PostgreSQL compiles no statement of the services, in tables of which it has no statistics', async () => {
	const server = await startLocalPostgres({
		dataDirectory: join(await temporaryFolder(0o711), 'data'),
		password: 'test',
		installation: debianInstallation,
		settings: { shared_preload_libraries: 'pg_stat_statements', autovacuum: 'off' },
	});
	onTestFinished(() => server.stop());
	await withConnection(server.url('postgres'), (sql) => sql`create database contacts`);
	const url = server.url('contacts');
	const users = ['owner', 'personal-contacts', 'company-contacts', 'crm-sync'] as const;
	await setUpRoles(url, Object.fromEntries(users.map((user) => [user, rolePassword])));
	const as = (user: RoleUser | 'owner') => urlAs(url, user, rolePassword);
	await migrate(as('owner'));
	await withConnection(url, async (sql) => {
		expect(await sql`select pg_jit_available() as available`).toEqual([{ available: true }]);
		await sql`create extension pg_stat_statements`;
		await addProject(sql, 'acme', 'acme-key');
	});

	const crm = await startStandIn({
		plan: 'enterprise',
		contacts: Array.from({ length: contacts }, (_, n) => ({ id: n + 1 })),
	});
	onTestFinished(() => crm.close());
	async function start(program: ProgramName & RoleUser, more: Record<string, string> = {}) {
		const service = await startService(program, { DATABASE_URL: as(program), ...more });
		onTestFinished(() => service.stop());
		return service;
	}
	const synchroniser = await start('crm-sync', { BITRIX24_WEBHOOK_URL: crm.webhookUrl, BITRIX24_PLAN: 'enterprise' });
	await synchroniser.waitForLine(/run done/);
	// No list fits into 0 MB, so each is read from the table in batches.
	const company = await start('company-contacts', { LIST_STREAM_MEGABYTES: '0' });
	const personal = await start('personal-contacts');
	const credentials = 'project=acme&api_key=acme-key';
	const lists = ['list', 'list', 'list&company_id=7', 'changes', 'changes&limit=1000'].map((name) => name.split('&'));
	for (const [name, ...query] of lists) {
		const response = await fetch(`${company.url}/api/company_contacts.${name}?${[credentials, ...query].join('&')}`);
		expect([name, response.status]).toEqual([name, 200]);
		const { cursor } = (await response.json()) as { cursor?: string };
		if (cursor !== undefined && query.length === 0) lists.push(['changes', `cursor=${cursor}`]);
	}
	for (const [path, body] of [
		['personal_contacts', { chat_id: 1, name: 'A' }],
		['direct_subscriptions', { chat_id: 1, active: true }],
	] as const) {
		const response = await fetch(`${personal.url}/api/${path}?${credentials}`, {
			method: 'POST',
			headers: { 'content-type': 'application/json' },
			body: JSON.stringify(body),
		});
		expect([path, response.status]).toEqual([path, 200]);
	}

	const compiled = await withConnection(
		url,
		(sql) => sql`
			select rolname as role, left(query, 100) as statement, calls::int, jit_functions::int as functions
			from pg_stat_statements join pg_roles on pg_roles.oid = userid
			where rolname ~ '^contacts_|_service$' and jit_functions > 0`,
	);
	expect(compiled).toEqual([]);
});
