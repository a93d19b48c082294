import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { migrate } from '@contacts/common/database/migrate.js';
import { setUpRoles, urlAs } from '@contacts/common/database/roles.js';
import { startDebianPostgres } from '@contacts/testing/debian-postgres.js';
import { startLocalPostgres } from '@contacts/testing/embedded-postgres.js';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const execute = promisify(execFile);
const command = fileURLToPath(new URL('../../tools/cli/dist/main.js', import.meta.url));

interface Server {
	/** The superuser's URL of a database. */
	url(database: string): string;
	stop(): Promise<void>;
}

async function asUser<T>(url: string, work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
	const sql = postgres(url, { max: 1, fetch_types: false, onnotice: () => undefined });
	try {
		return await work(sql);
	} finally {
		await sql.end({ timeout: 5 });
	}
}

const servers: [version: string, start: (folder: string) => Promise<Server>][] = [
	['15', () => startDebianPostgres('test')],
	['18', (folder) => startLocalPostgres({ dataDirectory: join(folder, 'data'), password: 'test' })],
];

describe.each(servers)('on PostgreSQL %s', (version, start) => {
	let folder: string;
	let server: Server;
	let superuser: string;
	let owner: string;

	beforeAll(async () => {
		folder = mkdtempSync(join(tmpdir(), 'contacts-owner-rights-'));
		server = await start(folder);
		superuser = server.url('postgres');
		await asUser(superuser, async (sql) => {
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
		await setUpRoles(superuser, { owner: 'owner' });
		owner = urlAs(superuser, 'owner', 'owner');
		await migrate(owner);
	});
	afterAll(async () => {
		await server?.stop();
		rmSync(folder, { recursive: true, force: true });
	});

	test('the owner and the roles are members of no role', async () => {
		const rows = await asUser(
			superuser,
			(sql) => sql`select from pg_auth_members where member::regrole::text ~ '^contacts_|_contacts_'`,
		);
		expect([...rows]).toEqual([]);
	});

	test('doctor warns where the owner may create roles, before PostgreSQL 16', async () => {
		await asUser(superuser, (sql) => sql`alter role contacts_owner createrole`);
		const env = { DATABASE_URL: owner };
		const { stdout } = await execute(process.execPath, [command, 'doctor', '--json'], { env }).catch((error) => error);
		const { findings } = JSON.parse(stdout) as { findings: { check: string; state: string; advice?: string }[] };
		const [finding] = findings.filter(({ check }) => check === 'owner');
		expect(finding?.state).toBe(version === '15' ? 'warning' : 'ok');
		if (version === '15') expect(finding?.advice).toMatch(/nocreaterole/);
		await setUpRoles(superuser, {});
	});

	test('the owner can become no other role, and reaches neither files, programs nor other databases', async () => {
		const granted: string[] = [];
		for (const statement of [
			'create role more',
			'create database more',
			'alter role contacts_owner createrole',
			'alter role contacts_owner connection limit -1',
			"alter role contacts_operator password 'mine'",
			'grant contacts_operator to contacts_owner',
			'grant pg_execute_server_program to contacts_owner',
			'set role pg_execute_server_program',
			'alter database postgres owner to postgres',
			"alter system set archive_command = 'id'",
			"copy projects to program 'id'",
			"select pg_read_file('/etc/passwd')",
			'select lo_create(0)',
			"create function run(text) returns int language c as '/lib/x86_64-linux-gnu/libc.so.6', 'system'",
		]) {
			const code = await asUser(owner, (sql) => sql.unsafe(statement)).then(
				() => 'granted',
				(error: { code: string }) => error.code,
			);
			if (code !== '42501') granted.push(`${code}: ${statement}`);
		}
		expect(granted).toEqual([]);
	});
});
