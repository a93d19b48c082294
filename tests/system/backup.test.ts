import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sql } from '@contacts/common/database/client.js';
import { migrate } from '@contacts/common/database/migrate.js';
import { type RoleUser, roles, setUpRoles, urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { type DebianPostgres, startDebianPostgres } from '@contacts/testing/debian-postgres.js';
import { type LocalPostgres, startLocalPostgres } from '@contacts/testing/embedded-postgres.js';
import { environmentOf, startProcess } from '@contacts/testing/process.js';
import { type RunningService, startService } from '@contacts/testing/services.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { pageAt, root } from '../docs/pages.js';

const password = 'test';
const users: readonly (RoleUser | 'owner')[] = ['owner', ...(Object.keys(roles) as RoleUser[])];

let folder: string;
/** PostgreSQL 15, whose `pg_dump` and `pg_restore` this machine has. */
let server: DebianPostgres;

beforeAll(async () => {
	folder = mkdtempSync(join(tmpdir(), 'contacts-backup-'));
	server = await startDebianPostgres(password);
	const sql = connect(server.url('postgres'));
	await sql`create database contacts template template0 encoding 'UTF8'`;
	await sql.end();
	await setUpRoles(server.url('contacts'), Object.fromEntries(users.map((user) => [user, password])));
	await migrate(urlAs(server.url('contacts'), 'owner', password));
});
afterAll(async () => {
	await server?.stop();
	rmSync(folder, { recursive: true, force: true });
});

function connect(url: string): Sql {
	return postgres(url, { max: 1, fetch_types: false, onnotice: () => undefined });
}

async function withDatabase<T>(url: string, work: (sql: Sql) => Promise<T>): Promise<T> {
	const sql = connect(url);
	try {
		return await work(sql);
	} finally {
		await sql.end({ timeout: 5 });
	}
}

/** The shell commands of a section of the page. */
function commandsOf(section: string): string[] {
	const { text, blocks } = pageAt('docs/backup.md');
	const [, body = ''] = text.split(`\n## ${section}\n`);
	const [own = ''] = body.split('\n## ');
	return blocks.filter(({ language, text: block }) => language === 'sh' && own.includes(block)).map(({ text }) => text);
}

interface Reader {
	/** What the reader has in the current folder: the repository, and files beside it. */
	cwd: string;
	port: number;
}

/** Runs commands of the page as a reader does, without npx, which would install first. */
async function paste(commands: string[], { cwd, port }: Reader): Promise<string> {
	const lines = commands.join('\n').replaceAll('SUPERUSER@HOST:5432', `postgres@HOST:5432`);
	const npx = `npx() { shift 3; node '${join(root, 'tools/cli/dist/main.js')}' "$@"; }`;
	writeFileSync(join(cwd, 'pgpass'), `*:*:*:*:${password}\n`, { mode: 0o600 });
	const script = startProcess(
		'bash',
		['-euo', 'pipefail', '-c', `${npx}\n${lines.replaceAll('HOST:5432', `127.0.0.1:${port}`)}`],
		{
			cwd,
			// Instead of the prompt for the password.
			env: environmentOf({ PGPASSFILE: join(cwd, 'pgpass') }),
		},
	);
	expect(await script.exit, script.output()).toBe(0);
	return script.output();
}

/** A folder with what the page expects there. */
async function readersFolder(url: (database: string) => string): Promise<string> {
	const cwd = await temporaryFolder();
	for (const name of ['packages', 'operations']) execFileSync('ln', ['-s', join(root, name), join(cwd, name)]);
	const write = (name: string, lines: string[]) =>
		writeFileSync(join(cwd, name), `${lines.join('\n')}\n`, { mode: 0o600 });
	write('owner.env', [`DATABASE_URL=${urlAs(url('contacts'), 'owner', password)}`]);
	const variables = readFileSync(join(root, 'operations/postgres/passwords.sql'), 'utf8').matchAll(
		/\\getenv \w+ (\w+)/g,
	);
	write(
		'passwords.env',
		[...variables].map(([, name]) => `${name}=${password}`),
	);
	write('restore.env', connectionOf(new URL(url('contacts')).port, 'contacts_owner'));
	return cwd;
}

const connectionOf = (port: number | string, user = 'contacts_backup') => [
	'PGHOST=127.0.0.1',
	`PGPORT=${port}`,
	'PGDATABASE=contacts',
	`PGUSER=${user}`,
	`PGPASSWORD=${password}`,
];

async function start(name: 'company-contacts' | 'personal-contacts', url: string): Promise<RunningService> {
	const service = await startService(name, { DATABASE_URL: urlAs(url, name, password) });
	onTestFinished(() => service.stop());
	return service;
}

interface Changes {
	cursor: string;
	changes: { contact: { name: string } }[];
}

/** The status and the body of a request for changes. */
async function changesOf(service: RunningService, cursor?: string) {
	const query = new URLSearchParams({ project: 'partner', api_key: 'partner-key', ...(cursor && { cursor }) });
	const response = await fetch(`${service.url}/api/company_contacts.changes?${query}`);
	return { status: response.status, body: (await response.json()) as Changes & { code?: string } };
}

describe('the page on backups, followed word for word', () => {
	let dump: string;
	let cursors: string[];
	let later: LocalPostgres;

	beforeAll(async () => {
		const url = server.url('contacts');
		await withDatabase(url, async (sql) => {
			await addProject(sql, 'partner', 'partner-key');
			await addProject(sql, 'revoked', 'revoked-key');
			await sql`update api_keys set revoked_at = now() where id = 2`;
			await sql`insert into company_contacts (bitrix_id, name) values (1, 'one'), (2, '🙂 two'), (3, null)`;
			await sql`delete from company_contacts where bitrix_id = 3`;
			await sql`insert into personal_contacts (chat_id, name, project_id) values (5, 'of a person', 1)`;
			await sql`insert into direct_subscriptions (chat_id) values (7)`;
			await sql`update crm_sync_state set last_full_at = now()`;
		});
		const service = await startService('company-contacts', { DATABASE_URL: urlAs(url, 'company-contacts', password) });
		const before = await changesOf(service);
		const cwd = mkdtempSync(join(folder, 'reader-'));
		writeFileSync(join(cwd, 'backup.env'), connectionOf(server.port).join('\n'));
		const [command = ''] = commandsOf('Back up');
		await paste([command], { cwd, port: server.port });
		dump = join(cwd, 'contacts.dump');
		await withDatabase(url, (sql) => sql`update company_contacts set name = 'after the dump' where bitrix_id = 1`);
		const isShown = async () => JSON.stringify((await changesOf(service)).body.changes).includes('after the dump');
		await waitUntil(isShown, { timeoutMs: 20_000 });
		cursors = [before.body.cursor, (await changesOf(service)).body.cursor];
		await service.stop();
		later = await startLocalPostgres({ dataDirectory: join(folder, 'later'), password });
	});
	afterAll(() => later?.stop());

	test('a dump can be read by its owner alone', () => {
		expect(statSync(dump).mode & 0o777).toBe(0o600);
	});

	describe.each([
		['the same server, beside the earlier database', () => server, /passwords\.sql/],
		['a new server of a later version', () => later, /rename to/],
	] as const)('restored on %s', (_, target, leftOut) => {
		let output: string;
		const url = () => target().url('contacts');

		test('the commands succeed, and doctor has nothing to say about the database', async () => {
			const cwd = await readersFolder(target().url);
			execFileSync('cp', [dump, join(cwd, 'contacts.dump')]);
			const commands = commandsOf('Restore').filter((text) => !text.includes('docker') && !leftOut.test(text));
			expect(commands).toHaveLength(3);
			output = await paste(commands, { cwd, port: target().port });
			expect(output).toContain('The schema is up to date.');
			expect(output).not.toMatch(/^(problem|warning)/m);
			expect(output).toMatch(/^ok +roles/m);
		});

		test('every row and the next IDs are those of the dump, and a full sync run is due', async () => {
			await withDatabase(url(), async (sql) => {
				const [stored] = await sql`
					select (select string_agg(name, ', ' order by id) from company_contacts) as contacts,
					       (select string_agg(name, ', ') from personal_contacts) as persons,
					       (select count(*)::int from audit_log) as audited,
					       (select last_full_at from crm_sync_state) as last_full_at`;
				expect(stored).toEqual({ contacts: 'one, 🙂 two', persons: 'of a person', audited: 5, last_full_at: null });
				const [added] = await sql`insert into company_contacts (bitrix_id) values (4) returning id::int`;
				await sql`delete from company_contacts where bitrix_id = 4`;
				// That of the deleted contact is not assigned again.
				expect(added).toEqual({ id: 4 });
			});
		});

		test('keys and services work, and a partner’s cursors from before get 410', async () => {
			const company = await start('company-contacts', url());
			const personal = await start('personal-contacts', url());
			expect((await changesOf(company)).body.changes[0]?.contact.name).toBe('one');
			for (const cursor of cursors) {
				expect(await changesOf(company, cursor)).toMatchObject({ status: 410, body: { code: 'cursor_expired' } });
			}
			const refused = await fetch(`${company.url}/api/company_contacts.list?project=revoked&api_key=revoked-key`);
			expect(refused.status).toBe(401);
			const save = async (chat_id: number) => {
				const response = await fetch(`${personal.url}/api/personal_contacts?project=partner&api_key=partner-key`, {
					method: 'POST',
					headers: { 'content-type': 'application/json' },
					body: JSON.stringify({ chat_id }),
				});
				return response.json();
			};
			expect([await save(5), await save(7)]).toEqual([{ ok: 'saved' }, { ok: 'skipped' }]);
		});

		test('the operator’s changes are recorded, and no role can create temporary tables', async () => {
			await withDatabase(urlAs(url(), 'operator', password), async (sql) => {
				await sql`insert into projects (code) values ('later')`;
				expect((await sql`select role, action from audit_log order by id desc limit 1`)[0]).toEqual({
					role: roles.operator,
					action: 'project created',
				});
				await expect(sql`create temporary table mine ()`).rejects.toMatchObject({ code: '42501' });
			});
		});
	});
});

describe('the nightly backup', () => {
	const unit = readFileSync(join(root, 'operations/systemd/contacts-backup.service'), 'utf8');

	/** Runs the commands of the unit, with these variables beside those of its connection. */
	async function backUp(backups: string, metrics: string, more: Record<string, string> = {}) {
		const commands = [...unit.matchAll(/^ExecStart(?:Pre|Post)?=[-+]*(.+)$/gm)].map(([, command]) => command);
		const connection = Object.fromEntries(connectionOf(server.port).map((line) => line.split('=')));
		const script = startProcess('sh', ['-ec', commands.join('\n')], {
			cwd: root,
			env: environmentOf({ ...connection, BACKUP_DIRECTORY: backups, BACKUP_METRICS_DIRECTORY: metrics, ...more }),
		});
		const code = await script.exit;
		expect(readdirSync(metrics)).toEqual(['contacts.prom']);
		return { code, output: script.output(), successAt: successAt(metrics) };
	}

	const successAt = (metrics: string) =>
		/^contacts_backup_last_success_timestamp_seconds (\d+)$/m.exec(
			readFileSync(join(metrics, 'contacts.prom'), 'utf8'),
		)?.[1];

	/** Creates an empty file that is this old. */
	function createOld(file: string, age: string): void {
		writeFileSync(file, '');
		execFileSync('touch', ['-d', `${age} ago`, file]);
	}

	test('deletes older dumps only after a new one is complete, which only its owner may read, and reports the time of its success', async () => {
		const [backups, metrics] = [await temporaryFolder(), await temporaryFolder()];
		createOld(join(backups, 'contacts-old.dump'), '40 days');
		createOld(join(backups, 'contacts-recent.dump'), '3 days');

		const unreachable = { PGPORT: '1' };
		expect(await backUp(backups, metrics, unreachable)).toMatchObject({ code: 1, successAt: '0' });
		expect(readdirSync(backups).sort()).toEqual(['contacts-old.dump', 'contacts-recent.dump']);

		const { code, output, successAt } = await backUp(backups, metrics);
		expect(code, output).toBe(0);
		const [made = '', ...others] = readdirSync(backups).sort();
		expect(made).toMatch(/^contacts-\d{8}T\d{6}Z\.dump$/);
		expect(others).toEqual(['contacts-recent.dump']);
		expect(statSync(join(backups, made)).mode & 0o777).toBe(0o600);
		expect(successAt).toMatch(/^\d{10}$/);
		expect(await backUp(backups, metrics, unreachable)).toMatchObject({ code: 1, successAt });
	});

	test('keeps every older dump and leaves no part of a new one when it fails halfway, and deletes what a killed backup left', async () => {
		const [backups, metrics] = [await temporaryFolder(), await temporaryFolder()];
		createOld(join(backups, 'contacts-old.dump'), '40 days');
		createOld(join(backups, 'contacts-killed.dump.part'), '3 days');
		createOld(join(backups, 'contacts-running.dump.part'), '3 hours');
		const sql = connect(server.url('contacts'));
		onTestFinished(() => sql.end());
		await sql`revoke select on personal_contacts from contacts_backup`;
		const { code, output, successAt } = await backUp(backups, metrics);
		await sql`grant select on personal_contacts to contacts_backup`;
		expect([code, successAt], output).toEqual([1, '0']);
		expect(readdirSync(backups).sort()).toEqual(['contacts-old.dump', 'contacts-running.dump.part']);
	});

	test('in a container it runs every night at 02:30 UTC, goes on after a failure, and reports only a success', async () => {
		const [backups, metrics, programs] = [await temporaryFolder(), await temporaryFolder(), await temporaryFolder()];
		// The first night ends at once, and so does the second, with a database. The third ends the loop.
		const program = (name: string, text: string) =>
			writeFileSync(join(programs, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
		program('date', `[ "$1" = +%s ] && [ ! -e ${backups}/made ] && echo 1795392000 && exit; exec /bin/date "$@"`);
		program('sleep', `echo "$1" >>${programs}/slept; [ "$(wc -l <${programs}/slept)" -lt 3 ] || kill "$PPID"`);
		program(
			'pg_dump',
			`[ "$(wc -l <${programs}/slept)" -ge 2 ] || exit 1; touch ${backups}/made; exec /usr/bin/pg_dump "$@"`,
		);
		const connection = Object.fromEntries(connectionOf(server.port).map((line) => line.split('=')));
		const script = startProcess('sh', [join(root, 'operations/backup/nightly.sh')], {
			env: environmentOf({
				...connection,
				PATH: `${programs}:${process.env.PATH}`,
				BACKUP_DIRECTORY: backups,
				BACKUP_METRICS_DIRECTORY: metrics,
			}),
		});
		expect(await script.exit, script.output()).toBe('SIGTERM');
		// 1795392000 is 2026-11-23 00:00 UTC.
		expect(readFileSync(join(programs, 'slept'), 'utf8').split('\n').slice(0, 2)).toEqual(['9000', '9000']);
		expect(readdirSync(backups).filter((name) => name.endsWith('.dump'))).toHaveLength(1);
		expect(successAt(metrics)).toMatch(/^\d{10}$/);
	});
});
