import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hashKey } from '@contacts/common/auth/api-key.js';
import { migrate } from '@contacts/common/database/migrate.js';
import { readRights } from '@contacts/common/database/rights.sql.js';
import { ownerRole, type RoleUser, roles, setUpRoles, urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { startLocalPostgres } from '@contacts/testing/embedded-postgres.js';
import { gatewayConfig } from '@contacts/testing/gateway.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import { insertKey, insertProject, revokeKey, setProjectEnabled } from '@contacts/testing/projects.js';
import { exchange } from '@contacts/testing/raw-http.js';
import { type RunningService, startService } from '@contacts/testing/services.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { afterAll, expect, onTestFinished } from 'vitest';

const file = new URL('../../docs/who-may-what.md', import.meta.url);
const services = ['personal-contacts', 'company-contacts'] as const;
type Name = (typeof services)[number];
let running: Record<Name, RunningService>;
let gateway: RunningNginx;

test.beforeAll(async () => {
	const { sql } = database;
	await addProject(sql, 'any', 'any-key');
	await addProject(sql, 'other', 'other-key');
	for (const service of services) await addProject(sql, `for-${service}`, `for-${service}-key`, { service });
	await insertProject(sql, 'sandbox', true);
	await insertKey(sql, { project: 'sandbox', hash: hashKey('sandbox-key'), service: null, expiresAt: null });
	await addProject(sql, 'disabled', 'disabled-key');
	await setProjectEnabled(sql, 'disabled', false);
	await addProject(sql, 'expired', 'expired-key', { expiresAt: new Date(Date.now() - 1000) });
	await addProject(sql, 'revoked', 'revoked-key');
	const [key] = await sql<{ id: number }[]>`
		select k.id::float8 as id from api_keys k join projects p on p.id = k.project_id where p.code = 'revoked'`;
	await revokeKey(sql, key?.id ?? Number.NaN);
	const start = (name: Name) => startService(name, { DATABASE_URL: urlAs(database.url, name, rolePassword) });
	running = { 'personal-contacts': await start(services[0]), 'company-contacts': await start(services[1]) };
	gateway = await startNginx(gatewayConfig(new URL(running['company-contacts'].url).host));
});
afterAll(async () => {
	await gateway?.stop();
	await Promise.all(Object.values(running ?? {}).map((service) => service.stop()));
});

/** A table whose rows with the same outcomes are one. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
	const groups = new Map<string, string[]>();
	for (const [name = '', ...outcomes] of rows) {
		const key = outcomes.join(' | ');
		groups.set(key, [...(groups.get(key) ?? []), name]);
	}
	const merged = [...groups].map(([outcomes, names]) => [names.join(', '), outcomes]);
	return [head, head.map(() => '---'), ...merged].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** The status of the response to exactly this target. */
async function statusOf(url: string, method: string, target: string, json = '{"chat_id":1}'): Promise<string> {
	const body = method === 'POST' ? json : '';
	const headers = method === 'POST' ? `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n` : '';
	const request = `${method} ${target} HTTP/1.1\r\nHost: a\r\n${headers}Connection: close\r\n\r\n${body}`;
	const responses = await exchange(url, Buffer.from(request), 10_000);
	return responses.map(({ status }) => status).join();
}

async function databaseRights(): Promise<string> {
	const names = Object.values(roles);
	const rows = await readRights(database.sql, names);
	const tables = [...new Set(rows.map((row) => row.table))].sort();
	const verbs = (name: string, role: string) =>
		rows.find((row) => row.table === name && row.role === role)?.rights.join(', ') ?? '';
	return table(
		['table, sequence or function', ...names.map((role) => `\`${role}\``)],
		tables.map((name) => [`\`${name}\``, ...names.map((role) => verbs(name, role))]),
	);
}

/** What each role tries in a database that `owner.sql` has set up, and in another one of the same server. */
async function ownRules(): Promise<string> {
	const folder = await temporaryFolder();
	const server = await startLocalPostgres({ dataDirectory: join(folder, 'postgres'), password: 'test' });
	onTestFinished(() => server.stop());
	const admin = postgres(server.url('postgres'), { max: 1 });
	await admin`create database contacts`;
	await admin.end();
	const users = ['owner', ...(Object.keys(roles) as RoleUser[])] as const;
	await setUpRoles(server.url('contacts'), Object.fromEntries(users.map((user) => [user, rolePassword])));
	await migrate(urlAs(server.url('contacts'), 'owner', rolePassword));

	const attempts: readonly (readonly [what: string, statement: string, databaseName: string])[] = [
		['change its own password', "alter role current_user password 'mine'", 'contacts'],
		['change its own settings', "alter role current_user set search_path = 'mine'", 'contacts'],
		['change its own connection limit', 'alter role current_user connection limit -1', 'contacts'],
		['change the password of another role', "alter role postgres password 'mine'", 'contacts'],
		['take an advisory lock', 'select pg_advisory_xact_lock(1)', 'contacts'],
		['create a large object', 'select lo_create(0)', 'contacts'],
		['create a temporary table', 'create temporary table mine ()', 'contacts'],
		['create a table', 'create table public.mine ()', 'contacts'],
		['send a notification', 'notify anything', 'contacts'],
		[
			'end the session of another role',
			"select pg_terminate_backend(pid) from pg_stat_activity where usename = 'postgres'",
			'contacts',
		],
		['connect to another database', 'select 1', 'postgres'],
		['create a temporary table in another database', 'create temporary table mine ()', 'postgres'],
		['create a large object in another database', 'select lo_create(0)', 'postgres'],
		['create a table in another database', 'create table public.mine ()', 'postgres'],
	];
	const other = postgres(server.url('contacts'), { max: 1 });
	await other`select 1`;
	const rows: string[][] = [];
	for (const [what, statement, name] of attempts) {
		const outcomes: string[] = [];
		for (const user of users) {
			const url = urlAs(server.url(name), user, rolePassword);
			outcomes.push(await attempt(url, statement));
		}
		rows.push([what, ...outcomes]);
	}
	await other.end();
	return table(['attempt', ...users.map((user) => `\`${user === 'owner' ? ownerRole : roles[user]}\``)], rows);
}

/** Tries a statement, and rolls it back. */
async function attempt(url: string, statement: string): Promise<string> {
	const sql = postgres(url, { max: 1, fetch_types: false, onnotice: () => undefined });
	const undone = new Error('rolled back');
	try {
		await sql.begin(async (transaction) => {
			await transaction.unsafe(statement);
			throw undone;
		});
		return '';
	} catch (error) {
		if (error === undone) return 'yes';
		expect(error).toMatchObject({ code: '42501' });
		return '';
	} finally {
		await sql.end({ timeout: 5 });
	}
}

const requests: Record<Name, readonly [method: string, path: string]> = {
	'personal-contacts': ['POST', '/api/personal_contacts'],
	'company-contacts': ['GET', '/api/company_contacts.list'],
};

async function credentials(): Promise<string> {
	const kinds: readonly (readonly [string, string])[] = [
		['a project and its key', 'project=any&api_key=any-key'],
		['a key for personal-contacts only', 'project=for-personal-contacts&api_key=for-personal-contacts-key'],
		['a key for company-contacts only', 'project=for-company-contacts&api_key=for-company-contacts-key'],
		['a sandbox project and its key', 'project=sandbox&api_key=sandbox-key'],
		['nothing', ''],
		['no key', 'project=any'],
		['no project', 'api_key=any-key'],
		['an empty key', 'project=any&api_key='],
		['a wrong key', 'project=any&api_key=wrong'],
		['an unknown project', 'project=unknown&api_key=any-key'],
		['the key of another project', 'project=any&api_key=other-key'],
		['a key given twice', 'project=any&api_key=any-key&api_key=any-key'],
		['a project given twice', 'project=any&project=any&api_key=any-key'],
		['a disabled project', 'project=disabled&api_key=disabled-key'],
		['an expired key', 'project=expired&api_key=expired-key'],
		['a revoked key', 'project=revoked&api_key=revoked-key'],
		['the hash of a key', `project=any&api_key=${hashKey('any-key').toString('hex')}`],
	];
	const rows: string[][] = [];
	for (const [what, query] of kinds) {
		const statuses: string[] = [];
		for (const service of services) {
			const [method, path] = requests[service];
			statuses.push(await statusOf(running[service].url, method, `${path}?${query}`));
		}
		rows.push([what, ...statuses]);
	}
	return table(['credentials', ...services], rows);
}

async function paths(): Promise<string> {
	const good = 'project=any&api_key=any-key';
	const targets: readonly (readonly [string, string, string?])[] = [
		['GET', `/api/company_contacts.list?${good}`],
		['GET', '/api/company_contacts.list'],
		['POST', `/api/company_contacts.list?${good}`],
		['DELETE', `/api/company_contacts.list?${good}`],
		['GET', `/api/company_contacts.changes?${good}`],
		['GET', '/api/company_contacts.changes'],
		['POST', `/api/company_contacts.changes?${good}`],
		['POST', `/api/personal_contacts?${good}`],
		['GET', `/api/personal_contacts?${good}`],
		['POST', `/api/direct_subscriptions?${good}`, '{"chat_id":1,"active":false}'],
		['GET', `/api/direct_subscriptions?${good}`],
		['GET', '/health/live'],
		['GET', '/health/ready'],
		['GET', '/metrics'],
		['POST', '/bitrix24/events'],
		['GET', '/'],
		['GET', '/api'],
		['GET', '/docs/../metrics'],
		['GET', '/docs/%2e%2e/metrics'],
		['GET', '//metrics'],
		['GET', '/%6detrics'],
		['GET', `/api/company_contacts.list/../personal_contacts?${good}`],
	];
	const rows: string[][] = [];
	for (const [method, target, body] of targets) {
		const statuses: string[] = [];
		for (const { url } of [running['personal-contacts'], running['company-contacts'], gateway]) {
			statuses.push(await statusOf(url, method, target, body));
		}
		rows.push([`\`${method} ${target.replace(good, '…')}\``, ...statuses]);
	}
	return table(['request', ...services, 'through the gateway'], rows);
}

test('docs/who-may-what.md shows the access that the services grant', async () => {
	const observed = `# Who may do what

As observed: \`tests/system/who-may-what.test.ts\` asks PostgreSQL, the services and the gateway, and fails when their responses differ
from these tables. \`UPDATE_DOCS=1 npx -y pnpm@12 test:system\` updates this file.

## Database roles

On tables, sequences, and functions that run with their owner's rights. An empty cell means none.

${await databaseRights()}

## By PostgreSQL's own rules

What each role may do besides, in a database that \`packages/common/owner.sql\` has set up. The server refuses the rest.

${await ownRules()}

- A role can change its own password and the settings of its connections, and nobody can revoke that. A stolen password can lock its
  service out, until a superuser sets another one.
- Whoever can take advisory locks can keep others from mirroring or migrating. Who waits says which session holds the lock.
- In another database only its owner or a superuser can take rights away. Best keep no other databases on this server, or run
  \`revoke connect, temporary on database postgres from public\`, also for \`template1\`.
- Every role can use processor time, memory (\`work_mem\`) and temporary files (\`temp_file_limit\`, which a superuser can set).

## Credentials

The status of an otherwise valid request, by its credentials.

${await credentials()}

## Paths

The status of a request to each service, and through the gateway. \`?…\` stands for a project and its key. \`/docs\` and
\`/openapi.json\` are public, too.

${await paths()}
`;
	if (process.env.UPDATE_DOCS) writeFileSync(file, observed);
	expect(readFileSync(file, 'utf8')).toBe(observed);
	// Whatever the file says, these are not public.
	for (const secret of [
		'POST /api/personal_contacts?…',
		'POST /api/direct_subscriptions?…',
		'GET /metrics',
		'GET /health/ready',
		'GET //metrics',
	]) {
		expect(observed).toMatch(
			new RegExp(`\`${secret.replaceAll(/[?/.]/g, '\\$&')}\`[^|\n]*\\|[^|]*\\|[^|]*\\| 404 \\|`),
		);
	}
});
