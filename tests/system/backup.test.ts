import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createPersonalContactsClient } from '@contacts/client';
import { type LocalPostgres, startLocalPostgres } from '@contacts/local-postgres/local-postgres.js';
import { migrate } from '@contacts/migrations/migrate.js';
import { type RoleUser, roles, setUpRoles, urlAs } from '@contacts/migrations/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { makeCertificate } from '@contacts/testing/certificate.js';
import { withConnection } from '@contacts/testing/database.js';
import { debianInstallation } from '@contacts/testing/debian-postgres.js';
import { environmentOf, startProcess } from '@contacts/testing/process.js';
import { type RunningService, startService } from '@contacts/testing/services.js';
import { sharedFolder, temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { pageAt, read, root, sectionOf } from '../docs/pages.js';
import { paste } from '../docs/paste.js';

const password = 'test';
const users: readonly (RoleUser | 'owner')[] = ['owner', ...(Object.keys(roles) as RoleUser[])];

const folder = sharedFolder(0o711);
/** Debian's PostgreSQL, whose `pg_dump` and `pg_restore` are on the PATH. */
let server: LocalPostgres;

beforeAll(async () => {
	server = await startLocalPostgres({
		dataDirectory: join(folder, 'debian'),
		password,
		installation: debianInstallation,
	});
	await withConnection(
		server.url('postgres'),
		(sql) => sql`create database contacts template template0 encoding 'UTF8'`,
	);
	await setUpRoles(server.url('contacts'), Object.fromEntries(users.map((user) => [user, password])));
	await migrate(urlAs(server.url('contacts'), 'owner', password));
});
afterAll(() => server?.stop());

/** The shell commands of a section of the page. */
function commandsOf(heading: string): string[] {
	const section = sectionOf('docs/backup.md', heading);
	const commands = pageAt('docs/backup.md').blocks.filter(({ language }) => language === 'sh');
	return commands.map(({ text }) => text).filter((text) => section.includes(text));
}

/** Runs commands of the page as a reader does in this folder. */
async function follow(commands: string[], cwd: string, port: number): Promise<string> {
	const lines = commands.join('\n').replaceAll('SUPERUSER@', 'postgres@').replaceAll('HOST:5432', `127.0.0.1:${port}`);
	// Instead of the prompt for the password.
	const passwords = join(cwd, 'pgpass');
	writeFileSync(passwords, `*:*:*:*:${password}\n`, { mode: 0o600 });
	return (await paste(lines, cwd, { PGPASSFILE: passwords })).output();
}

const connectionOf = (port: number | string, user: string) => ({
	PGHOST: '127.0.0.1',
	PGPORT: String(port),
	PGDATABASE: 'contacts',
	PGUSER: user,
	PGPASSWORD: password,
});

const asLines = (variables: Record<string, string>) =>
	Object.entries(variables)
		.map(([name, value]) => `${name}=${value}\n`)
		.join('');

/** A folder with what the page expects there: the repository, and files with connections and passwords. */
function readersFolder({ url, port }: LocalPostgres): string {
	const cwd = mkdtempSync(join(folder, 'reader-'));
	for (const name of ['packages', 'operations']) execFileSync('ln', ['-s', join(root, name), join(cwd, name)]);
	const variables = read('operations/postgres/passwords.sql').matchAll(/\\getenv \w+ (\w+)/g);
	const files = {
		'backup.env': connectionOf(port, 'contacts_backup'),
		'restore.env': connectionOf(port, 'contacts_owner'),
		'owner.env': { DATABASE_URL: urlAs(url('contacts'), 'owner', password) },
		'passwords.env': Object.fromEntries([...variables].map(([, name]) => [name, password])),
	};
	for (const [name, content] of Object.entries(files)) writeFileSync(join(cwd, name), asLines(content));
	return cwd;
}

async function start(name: 'company-contacts' | 'personal-contacts', url: string): Promise<RunningService> {
	const service = await startService(name, { DATABASE_URL: urlAs(url, name, password) });
	onTestFinished(() => service.stop());
	return service;
}

interface Changes {
	cursor: string;
	changes: { contact: { name: string } }[];
	code?: string;
}

/** The status and the body of a request for changes. */
async function changesOf(service: RunningService, cursor?: string) {
	const query = new URLSearchParams({ project: 'partner', api_key: 'partner-key', ...(cursor && { cursor }) });
	const response = await fetch(`${service.url}/api/company_contacts.changes?${query}`);
	return { status: response.status, body: (await response.json()) as Changes };
}

describe('the page on backups, followed word for word', () => {
	let dump: string;
	/** Before and after the dump. */
	let cursors: string[];
	let later: LocalPostgres;

	beforeAll(async () => {
		const url = server.url('contacts');
		await withConnection(url, async (sql) => {
			await addProject(sql, 'partner', 'partner-key');
			await addProject(sql, 'revoked', 'revoked-key');
			await sql`update api_keys set revoked_at = now() where id = 2`;
			await sql`insert into company_contacts (bitrix_id, name) values (1, 'one'), (2, '🙂 two'), (3, null)`;
			await sql`delete from company_contacts where bitrix_id = 3`;
			await sql`insert into personal_contacts (chat_id, name, project_id) values (5, 'of a person', 1)`;
			await sql`insert into direct_subscriptions (chat_id) values (7)`;
			await sql`update crm_sync_state set last_full_at = now(), full_begun_at = now()`;
		});
		const service = await startService('company-contacts', { DATABASE_URL: urlAs(url, 'company-contacts', password) });
		const before = await changesOf(service);
		const cwd = readersFolder(server);
		const [command = ''] = commandsOf('Back up');
		await follow([command], cwd, server.port);
		dump = join(folder, 'contacts.dump');
		execFileSync('mv', [join(cwd, 'contacts.dump'), dump]);
		await withConnection(url, (sql) => sql`update company_contacts set name = 'after the dump' where bitrix_id = 1`);
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
		const url = () => target().url('contacts');

		test('the commands succeed, doctor finds nothing, and every row and the next IDs are those of the dump', async () => {
			const cwd = readersFolder(target());
			execFileSync('cp', [dump, join(cwd, 'contacts.dump')]);
			const commands = commandsOf('Restore').filter((text) => !text.includes('docker') && !leftOut.test(text));
			expect(commands).toHaveLength(3);
			const output = await follow(commands, cwd, target().port);
			expect(output).toContain('The schema is up to date.');
			expect(output).not.toMatch(/^(problem|warning)/m);
			expect(output).toMatch(/^ok +roles/m);
			await withConnection(url(), async (sql) => {
				const [stored] = await sql`
					select (select string_agg(name, ', ' order by id) from company_contacts) as contacts,
					       (select string_agg(name, ', ') from personal_contacts) as persons,
					       (select count(*)::int from audit_log) as audited,
					       (select coalesce(last_full_at, full_begun_at) from crm_sync_state) as full_run`;
				// A full sync run is due, from the first contact on.
				expect(stored).toEqual({ contacts: 'one, 🙂 two', persons: 'of a person', audited: 5, full_run: null });
				const [added] = await sql`insert into company_contacts (bitrix_id) values (4) returning id::int`;
				await sql`delete from company_contacts where bitrix_id = 4`;
				// That of the deleted contact is not assigned again.
				expect(added).toEqual({ id: 4 });
			});
		});

		test('keys and services work, a partner’s cursors from before get 410, and changes of the operator are recorded', async () => {
			const [company, personal] = await Promise.all([
				start('company-contacts', url()),
				start('personal-contacts', url()),
			]);
			expect((await changesOf(company)).body.changes[0]?.contact.name).toBe('one');
			for (const cursor of cursors) {
				expect(await changesOf(company, cursor)).toMatchObject({ status: 410, body: { code: 'cursor_expired' } });
			}
			const refused = await fetch(`${company.url}/api/company_contacts.list?project=revoked&api_key=revoked-key`);
			expect(refused.status).toBe(401);
			const bot = createPersonalContactsClient({ baseUrl: personal.url, project: 'partner', apiKey: 'partner-key' });
			expect([await bot.upsert({ chat_id: 5 }), await bot.upsert({ chat_id: 7 })]).toEqual(['saved', 'skipped']);
			await withConnection(urlAs(url(), 'operator', password), async (sql) => {
				await sql`insert into projects (code) values ('later')`;
				const [last] = await sql`select role, action from audit_log order by id desc limit 1`;
				expect(last).toEqual({ role: roles.operator, action: 'project created' });
				await expect(sql`create temporary table mine ()`).rejects.toMatchObject({ code: '42501' });
			});
		});
	});
});

test('partners’ cursors end too when the dump is from before the first contact', async () => {
	const [first, second] = ['unused', 'unused_again'].map((name) => server.url(name)) as [string, string];
	const epochOf = async (url: string) => {
		const [row] = await withConnection(
			url,
			(sql) => sql<[{ epoch: string }]>`select epoch from company_contacts_version`,
		);
		return row.epoch;
	};
	for (const url of [first, second]) {
		const name = new URL(url).pathname.slice(1);
		await withConnection(
			server.url('postgres'),
			(sql) => sql`create database ${sql(name)} template template0 encoding 'UTF8'`,
		);
		await setUpRoles(url, Object.fromEntries(users.map((user) => [user, password])));
	}
	await migrate(urlAs(first, 'owner', password));
	const file = join(folder, 'unused.dump');
	execFileSync('pg_dump', ['--format=custom', '--schema=public', `--file=${file}`, first]);
	const restore = ['--schema=public', '--no-owner', '--no-acl', '--single-transaction', file];
	execFileSync('pg_restore', [`--dbname=${urlAs(second, 'owner', password)}`, ...restore]);
	await migrate(urlAs(second, 'owner', password));
	expect(await epochOf(second)).not.toBe(await epochOf(first));
});

describe('the nightly backup', () => {
	const unit = read('operations/systemd/contacts-backup.service');
	const secondsSince = (time: string | undefined) => Math.abs(Date.now() / 1000 - Number(time));

	/** Runs a script with folders for dumps and metrics. */
	async function run(args: string[], backups: string, metrics: string, more: Record<string, string> = {}) {
		const connection = connectionOf(server.port, 'contacts_backup');
		const script = startProcess('sh', args, {
			cwd: root,
			env: environmentOf({ ...connection, BACKUP_DIRECTORY: backups, BACKUP_METRICS_DIRECTORY: metrics, ...more }),
		});
		const code = await script.exit;
		expect(readdirSync(metrics), script.output()).toEqual(['contacts.prom']);
		const text = readFileSync(join(metrics, 'contacts.prom'), 'utf8');
		const timeOf = (name: string) =>
			new RegExp(`^contacts_backup_${name}_timestamp_seconds (\\d{10})$`, 'm').exec(text)?.[1];
		return { code, successAt: timeOf('last_success'), expectedSince: timeOf('expected_since') };
	}

	test('keeps every older dump until a new one is complete, which only its owner may read, deletes what a killed backup left, and reports the time of its success', async () => {
		const [backups, metrics] = [await temporaryFolder(), await temporaryFolder()];
		const file = join(await temporaryFolder(), 'backup.env');
		writeFileSync(file, "PGPASSWORD='$'\n");
		const commands = [
			...unit.replace('/etc/contacts/backup.env true', `${file} true`).matchAll(/^ExecStart(?:Pre|Post)?=[-+]*(.+)$/gm),
		].map(([, command]) => command);
		const backUp = () => run(['-ec', commands.join('\n')], backups, metrics);
		const nameOf = (daysAgo: number) =>
			`contacts-${new Date(Date.now() - daysAgo * 86_400_000).toISOString().replace(/\.\d+|[-:]/g, '')}.dump`;
		const recent = [9, 8, 7, 6, 5, 4, 3].map(nameOf);
		const [old, killed, running] = [nameOf(40), `${nameOf(2)}.part`, `${nameOf(0.1)}.part`];
		for (const name of [old, ...recent, killed, running]) writeFileSync(join(backups, name), '');
		execFileSync('touch', ['-d', '3 days ago', join(backups, killed)]);

		await withConnection(server.url('contacts'), async (sql) => {
			await sql`revoke select on personal_contacts from contacts_backup`;
			const never = { code: 1, successAt: undefined, expectedSince: expect.any(String) };
			expect(await backUp()).toEqual(never);
			// The second failure does not change the time.
			execFileSync('sed', ['-i', '$s/[0-9]*$/1700000000/', join(metrics, 'contacts.prom')]);
			expect(await backUp()).toEqual({ ...never, expectedSince: '1700000000' });
			expect(readdirSync(backups).sort()).toEqual([old, ...recent, running]);
			await sql`grant select on personal_contacts to contacts_backup`;
		});
		const { code, successAt, expectedSince } = await backUp();
		expect([code, expectedSince]).toEqual([0, undefined]);
		const [made = '', ...others] = readdirSync(backups).sort().reverse();
		expect(made).toMatch(/^contacts-\d{8}T\d{6}Z\.dump$/);
		expect(others.reverse()).toEqual([...recent, running]);
		expect(statSync(join(backups, made)).mode & 0o777).toBe(0o600);
		expect(secondsSince(successAt)).toBeLessThan(600);
		const unreachable = await run(['-ec', commands.join('\n')], backups, metrics, { PGPORT: '1' });
		expect(unreachable).toEqual({ code: 1, successAt, expectedSince });
	});

	test('reports when the certificate ends, 0 when it can’t be read, and nothing without one', async () => {
		const [metrics, certificates] = [await temporaryFolder(), await temporaryFolder()];
		const [certificate, report] = [join(certificates, 'fullchain.pem'), join(metrics, 'contacts-certificate.prom')];
		const [command = ''] = /(?<=^ExecStartPre=-\+).*report-certificate.*$/m.exec(unit) ?? [];
		const reported = (TLS_CERTIFICATE: string) => {
			const env = environmentOf({ BACKUP_METRICS_DIRECTORY: metrics, TLS_CERTIFICATE });
			execFileSync('sh', ['-ec', command], { cwd: root, env, stdio: 'pipe' });
			return readdirSync(metrics).map((name) => [name, readFileSync(join(metrics, name), 'utf8').split('\n').at(-2)]);
		};
		const metric = 'contacts_certificate_not_after_timestamp_seconds';
		expect(reported(certificate)).toEqual([['contacts-certificate.prom', `${metric} 0`]]);
		makeCertificate(certificates);
		const notAfter = Date.parse(new X509Certificate(readFileSync(certificate)).validTo) / 1000;
		expect(reported(certificate)).toEqual([['contacts-certificate.prom', `${metric} ${notAfter}`]]);
		expect(statSync(report).mode & 0o777).toBe(0o644);
		expect(reported('')).toEqual([]);
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
		const PATH = `${programs}:${process.env.PATH}`;
		const { code, successAt } = await run(['operations/backup/nightly.sh'], backups, metrics, { PATH });
		expect(code).toBe('SIGTERM');
		// 1795392000 is 2026-11-23 00:00 UTC.
		expect(readFileSync(join(programs, 'slept'), 'utf8').split('\n').slice(0, 2)).toEqual(['9000', '9000']);
		expect(readdirSync(backups).filter((name) => name.endsWith('.dump'))).toHaveLength(1);
		expect(secondsSince(successAt)).toBeLessThan(600);
	});
});
