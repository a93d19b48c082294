import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type LocalPostgres, startLocalPostgres } from '@contacts/local-postgres/local-postgres.js';
import { migrate } from '@contacts/migrations/migrate.js';
import { type RoleUser, setUpRoles, urlAs } from '@contacts/migrations/roles.js';
import { withConnection } from '@contacts/testing/database.js';
import { debianInstallation, debianVersion } from '@contacts/testing/debian-postgres.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { contacts } from '../command.js';
import { read, root } from '../docs/pages.js';

/** How a statement of this user ends. */
const outcomeOf = (url: string, statement: string) =>
	withConnection(url, (sql) => sql.unsafe(statement)).then(
		() => 'done',
		(error: { code: string }) => error.code,
	);

/** The scripts that the container "roles" runs, in its order. */
const scripts = [...read('docker-compose.yml').matchAll(/--file=(\/sql\/[\w-]+\.sql)/g)].map(([, mounted]) => {
	const [, file] = new RegExp(`\\./(\\S+):${mounted}:ro`).exec(read('docker-compose.yml')) ?? [];
	return join(root, String(file));
});

const runScripts = (url: string, passwords: Record<string, string>) =>
	promisify(execFile)(
		'psql',
		['--no-psqlrc', '--variable=ON_ERROR_STOP=1', ...scripts.map((file) => `--file=${file}`), url],
		{ env: { PATH: process.env.PATH, ...passwords } },
	);

describe.each([
	[debianVersion, { installation: debianInstallation }],
	['18', {}],
])('on PostgreSQL %s', (version, options) => {
	const folder = sharedFolder(0o711);
	let server: LocalPostgres;
	let url: string;
	const first = "first'canary";
	const connection = (user: RoleUser | 'owner', password: string) => urlAs(url, user, password);

	beforeAll(async () => {
		server = await startLocalPostgres({
			dataDirectory: join(folder, 'data'),
			password: 'test',
			settings: { log_statement: 'all', log_min_duration_statement: '0' },
			logFile: join(folder, 'log'),
			...options,
		});
		await withConnection(server.url('postgres'), (sql) => sql`create database contacts`);
		url = server.url('contacts');
		await withConnection(url, async (sql) => {
			const [row] = await sql`select current_setting('server_version') as version`;
			expect(row?.version).toMatch(new RegExp(`^${version}\\.`));
			// As an earlier installation may have left it.
			await sql`create role contacts_owner nologin createrole`;
			await sql`grant pg_execute_server_program to contacts_owner`;
			await sql`create role crm_sync_service`;
			await sql`create role contacts_operator`;
			await sql`grant contacts_operator to contacts_owner with admin option`;
			await sql`grant crm_sync_service to contacts_operator`;
		});
		expect(scripts).toHaveLength(3);
		await runScripts(url, { OWNER_DATABASE_PASSWORD: first, OPERATOR_DATABASE_PASSWORD: 'operator-canary' });
	});
	afterAll(() => server?.stop());

	test('the compose file’s scripts create an owner that can migrate, and let those roles log in that have a password', async () => {
		expect(await migrate(connection('owner', first))).not.toEqual([]);
		expect(await outcomeOf(connection('operator', 'operator-canary'), 'select 1')).toBe('done');
		expect(await outcomeOf(connection('privacy', 'operator-canary'), 'select 1')).toBe('28P01');
	});

	test('the owner and the roles are members of no role', async () => {
		const members = "select from pg_auth_members where member::regrole::text ~ '^contacts_|_contacts_'";
		expect(await withConnection(url, (sql) => sql.unsafe(members))).toHaveLength(0);
	});

	test('the owner can become no other role, and reaches neither files, programs nor other databases', async () => {
		const outcomes: Record<string, string> = {};
		for (const statement of [
			'create role more',
			'create database more',
			'alter role contacts_owner createrole',
			'alter role contacts_owner connection limit -1',
			"alter role contacts_operator password 'mine'",
			'grant contacts_operator to contacts_owner',
			'grant pg_execute_server_program to contacts_owner',
			'set role pg_execute_server_program',
			'alter database contacts owner to postgres',
			"alter system set archive_command = 'id'",
			"copy projects to program 'id'",
			"select pg_read_file('/etc/passwd')",
			'select lo_create(0)',
			"create function run(text) returns int language c as '/lib/x86_64-linux-gnu/libc.so.6', 'system'",
		])
			outcomes[statement] = await outcomeOf(connection('owner', first), statement);
		expect(Object.entries(outcomes).filter(([, outcome]) => outcome !== '42501')).toEqual([]);
	});

	test('doctor warns where the owner may create roles, before PostgreSQL 16', async () => {
		await withConnection(url, (sql) => sql`alter role contacts_owner createrole`);
		const { out } = await contacts(['doctor', '--json'], { DATABASE_URL: connection('owner', first) });
		const { findings } = JSON.parse(out) as { findings: { check: string; state: string; advice?: string }[] };
		const [finding] = findings.filter(({ check }) => check === 'owner');
		expect(finding?.state).toBe(Number(version) < 16 ? 'warning' : 'ok');
		if (Number(version) < 16) expect(finding?.advice).toMatch(/nocreaterole/);
		await setUpRoles(url, {});
	});

	test('a second run of the scripts changes the passwords that are set, and no log of the server has one', async () => {
		await runScripts(url, { OWNER_DATABASE_PASSWORD: 'second-canary' });
		expect(await outcomeOf(connection('owner', first), 'select 1')).toBe('28P01');
		expect(await migrate(connection('owner', 'second-canary'))).toEqual([]);
		expect(await outcomeOf(connection('operator', 'operator-canary'), 'select 1')).toBe('done');
		const log = readFileSync(join(folder, 'log'), 'utf8');
		expect(log).toContain('create role %I nologin');
		expect(log).not.toContain('canary');
	});
});
