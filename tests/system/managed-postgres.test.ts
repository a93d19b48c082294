import { execFileSync, spawnSync } from 'node:child_process';
import { chownSync, copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openClient } from '@contacts/common/database/client.js';
import { describeDatabaseError } from '@contacts/common/database/errors.js';
import { type LocalPostgres, startLocalPostgres } from '@contacts/local-postgres/local-postgres.js';
import { migrate } from '@contacts/migrations/migrate.js';
import { setUpRoles, urlAs } from '@contacts/migrations/roles.js';
import { withConnection } from '@contacts/testing/database.js';
import { startService } from '@contacts/testing/services.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { root } from '../docs/pages.js';

const password = 'managed';
const folder = sharedFolder();
const sockets = sharedFolder(0o777);
let server: LocalPostgres;
/** A server as cloud providers run it: TLS by a private authority, and an administrator without superuser rights. */
let url: URL;

beforeAll(async () => {
	const dataDirectory = join(folder, 'postgres');
	await (await startLocalPostgres({ dataDirectory, password })).stop();
	for (const host of ['localhost', 'elsewhere']) makeCertificate(host);
	giveCertificate('localhost');
	server = await startLocalPostgres({
		dataDirectory,
		password,
		settings: { ssl: 'on', unix_socket_directories: sockets },
	});

	await withConnection(server.url('postgres'), async (superuser) => {
		await superuser.unsafe(`create role provider_user login createrole createdb password '${password}'`);
		await superuser`create database contacts owner provider_user`;
	});
	url = new URL(server.url('contacts'));
	url.username = 'provider_user';
	url.hostname = 'localhost';
});
afterAll(() => server?.stop());

/** Makes a self-signed certificate. */
function makeCertificate(host: string): void {
	const options = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
	const name = ['-subj', `/CN=${host}`, '-addext', `subjectAltName=DNS:${host}`];
	const files = ['-keyout', join(folder, `${host}.key`), '-out', authorityOf(host)];
	execFileSync('openssl', ['req', ...options, ...name, ...files], { stdio: 'ignore' });
}

const authorityOf = (host: string) => join(folder, `${host}.crt`);

/** Installs a certificate, which the server uses from its next start or reload. */
function giveCertificate(host: string): void {
	const dataDirectory = join(folder, 'postgres');
	const { uid, gid } = statSync(dataDirectory);
	for (const ending of ['crt', 'key']) {
		const file = join(dataDirectory, `server.${ending}`);
		copyFileSync(join(folder, `${host}.${ending}`), file);
		chownSync(file, uid, gid);
	}
}

const withParameters = (parameters: string) => `${url.href}?${parameters}`;

/** Whether the client's connection is encrypted. */
async function isEncrypted(address: string): Promise<boolean> {
	const { sql } = openClient({ url: address, applicationName: 'test' });
	try {
		const [row] = await sql<[{ ssl: boolean }]>`select ssl from pg_stat_ssl where pid = pg_backend_pid()`;
		return row.ssl;
	} finally {
		await sql.end({ timeout: 1 });
	}
}

test.each([
	['', false],
	['sslmode=disable', false],
	['sslmode=prefer', true],
	['sslmode=require', true],
])('the parameters of the URL set the encryption, also with several hosts: %s', async (parameters, encrypted) => {
	expect(await isEncrypted(withParameters(parameters))).toBe(encrypted);
	const { host } = url;
	expect(await isEncrypted(withParameters(parameters).replace(host, `${host},${host}`))).toBe(encrypted);
});

test.each(['sslmode=verify-full', 'sslmode=verify-ca'])('%s refuses an unknown authority', async (parameters) => {
	await expect(isEncrypted(withParameters(parameters))).rejects.toThrow(/self-signed certificate/);
});

test('a socket is a host, without TLS', async () => {
	const socket = url.href.replace('localhost', encodeURIComponent(sockets));
	for (const address of [socket, `${socket}?sslmode=verify-full`])
		expect([address, await isEncrypted(address)]).toEqual([address, false]);
});

/** Lets the server read its certificate and its rules again. */
const reload = () => withConnection(server.url('contacts'), (sql) => sql`select pg_reload_conf()`);

describe('a service of an administrator without superuser rights, on a server that asks for the password in clear', () => {
	beforeAll(async () => {
		await setUpRoles(url.href, { owner: 'owner', 'company-contacts': 'role' });
		await migrate(urlAs(url.href, 'owner', 'owner'));
		const file = join(folder, 'postgres', 'pg_hba.conf');
		const rule = 'host all company_contacts_service all password\n';
		// Keeps the file's owner: it is truncated, not replaced.
		writeFileSync(file, rule + readFileSync(file, 'utf8'));
		await reload();
	});

	const asRole = (parameters: string) => urlAs(withParameters(parameters), 'company-contacts', 'role');

	/** The readiness of a service that trusts this authority in addition. */
	async function statusWith(authority: string) {
		const service = await startService('company-contacts', {
			DATABASE_URL: asRole('sslmode=verify-full'),
			NODE_EXTRA_CA_CERTS: authorityOf(authority),
		});
		const { status } = await fetch(`${service.url}/health/ready`);
		const encryption = await withConnection(
			server.url('contacts'),
			(sql) => sql`
				select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid)
				where usename = 'company_contacts_service'`,
		);
		await service.stop();
		return { status, encryption: [...encryption], output: service.output() };
	}

	test.each(['sslmode=disable', 'sslmode=prefer', 'sslmode=require'])('sends none with %s', async (parameters) => {
		const error = await isEncrypted(asRole(parameters)).catch((reason: unknown) => reason);
		expect(error).toMatchObject({ code: 'CLEARTEXT_PASSWORD' });
		expect(describeDatabaseError(error, 'service')).toMatch(
			/^The database asks for the password in clear, .*verify-full/,
		);
	});

	test('sends it over a connection to an authority that NODE_EXTRA_CA_CERTS trusts', async () => {
		expect(await statusWith('localhost')).toMatchObject({ status: 200, encryption: [{ ssl: true }] });
	});

	test('refuses a certificate for another name, but with verify-ca', async () => {
		giveCertificate('elsewhere');
		await reload();
		const program = join(root, 'tools/cli/dist/main.js');
		const tried = (sslmode: string, authority: string) => {
			const env = { DATABASE_URL: withParameters(`sslmode=${sslmode}`), NODE_EXTRA_CA_CERTS: authorityOf(authority) };
			const { status, stderr } = spawnSync(process.execPath, [program, 'project', 'list'], { env, encoding: 'utf8' });
			return [status, stderr];
		};
		expect(tried('verify-ca', 'elsewhere')).toEqual([0, '']);
		expect(tried('verify-full', 'elsewhere')).toEqual([
			1,
			expect.stringMatching(/^error: [^\n]*is for another name[^\n]*verify-ca[^\n]*\n$/),
		]);
		expect(tried('verify-ca', 'localhost')).toEqual([
			1,
			expect.stringMatching(/^error: [^\n]*\(DEPTH_ZERO_SELF_SIGNED_CERT\)[^\n]*NODE_EXTRA_CA_CERTS[^\n]*\n$/),
		]);
		const { status, output } = await statusWith('elsewhere');
		expect(status).toBe(503);
		expect(output).toContain('ERR_TLS_CERT_ALTNAME_INVALID');
	});
});
