import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { migrate } from '@contacts/common/database/migrate.js';
import { ownerRole, urlAs } from '@contacts/common/database/roles.js';
import { type LocalPostgres, startLocalPostgres } from '@contacts/testing/embedded-postgres.js';
import postgres from 'postgres';
import { afterAll, beforeAll, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** The scripts that the PostgreSQL container runs on a new volume, in the order of their names there. */
const scripts = [
	...readFileSync(join(root, 'docker-compose.yml'), 'utf8').matchAll(
		/\.\/(\S+):(\/docker-entrypoint-initdb\.d\/\S+):ro/g,
	),
]
	.sort((one, other) => String(one[2]).localeCompare(String(other[2])))
	.map(([, file]) => join(root, String(file)));

let folder: string;
let server: LocalPostgres;
let logFile: string;

beforeAll(async () => {
	folder = mkdtempSync(join(tmpdir(), 'contacts-owner-'));
	logFile = join(folder, 'log');
	server = await startLocalPostgres({
		dataDirectory: join(folder, 'postgres'),
		password: 'superuser',
		settings: { fsync: 'off', log_statement: 'all', log_min_duration_statement: '0' },
		logFile,
	});
	const sql = postgres(server.url('postgres'), { max: 1 });
	await sql`create database contacts`;
	await sql.end();
});
afterAll(async () => {
	await server?.stop();
	rmSync(folder, { recursive: true, force: true });
});

const run = (passwords: Record<string, string>) =>
	promisify(execFile)(
		'psql',
		['--no-psqlrc', '--variable=ON_ERROR_STOP=1', ...scripts.map((file) => `--file=${file}`), server.url('contacts')],
		{ env: { PATH: process.env.PATH, ...passwords } },
	);

test('the compose file’s scripts create an owner that can migrate, and roles that can log in; a second run changes passwords that are set; no log has one', async () => {
	expect(scripts).toHaveLength(2);
	const connection = (password: string) =>
		Object.assign(new URL(server.url('contacts')), { username: ownerRole, password }).href;
	await run({ OWNER_DATABASE_PASSWORD: "first'canary", OPERATOR_DATABASE_PASSWORD: 'operator-canary' });
	expect(await migrate(connection("first'canary"))).not.toEqual([]);
	await run({ OWNER_DATABASE_PASSWORD: 'second-canary' });
	for (const [user, state] of [
		['operator', 'connected'],
		['privacy', '28P01'],
	] as const) {
		const sql = postgres(urlAs(server.url('contacts'), user, 'operator-canary'), { max: 1 });
		const outcome = await sql`select 1`.then(
			() => 'connected',
			(error: { code: string }) => error.code,
		);
		await sql.end();
		expect([user, outcome]).toEqual([user, state]);
	}
	await expect(migrate(connection("first'canary"))).rejects.toMatchObject({ code: '28P01' });
	expect(await migrate(connection('second-canary'))).toEqual([]);

	const sql = postgres(connection('second-canary'), { max: 1 });
	const [owner] = await sql`
		select r.rolname as name, r.rolsuper as is_superuser, d.datdba = r.oid as owns_database, c.relowner = r.oid as owns_tables
		from pg_roles r, pg_database d, pg_class c
		where r.rolname = current_user and d.datname = current_database() and c.oid = 'public.projects'::regclass`;
	await sql.end();
	expect(owner).toEqual({ name: ownerRole, is_superuser: false, owns_database: true, owns_tables: true });
	const log = readFileSync(logFile, 'utf8');
	expect(log).toContain('create role %I nologin');
	expect(log).not.toContain('canary');
});
