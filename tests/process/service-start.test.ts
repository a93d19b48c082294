import { once } from 'node:events';
import { createServer } from 'node:net';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { migrate } from '@contacts/migrations/migrate.js';
import { addProject } from '@contacts/testing/app.js';
import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { exchangeText } from '@contacts/testing/raw-http.js';
import { startServiceProcess } from '@contacts/testing/service-process.js';
import type { ServiceProcess } from '@contacts/testing/services.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished } from 'vitest';

// The database's URL has a password that no process may write to its output.
const password = 'canary-password-61c9';
const written: string[] = [];
const role = () => new URL(database.url).pathname.slice(1);
const urlWithSecret = (part: Partial<URL> = {}) =>
	Object.assign(new URL(database.url), { username: role(), password, ...part }).href;

function start(name: ServiceName, environment: Record<string, string> = {}): ServiceProcess {
	const service = startServiceProcess(name, { DATABASE_URL: urlWithSecret(), ...environment });
	onTestFinished(() => void written.push(service.output()));
	return service;
}

let empty: TestDatabase;
let older: TestDatabase;
let withoutFunction: TestDatabase;
let elsewhere: TestDatabase;
let ascii: TestDatabase;

test.beforeAll(async () => {
	empty = await createTestDatabase('template0');
	older = await createTestDatabase('template0');
	ascii = await createTestDatabase('template0', 'SQL_ASCII');
	// Before a column that the services read.
	await migrate(older.url);
	await older.sql`alter table projects drop column sandbox`;
	withoutFunction = await createTestDatabase();
	await withoutFunction.sql`drop function database_history`;
	elsewhere = await createTestDatabase();
	await elsewhere.sql.unsafe(`alter database ${new URL(elsewhere.url).pathname.slice(1)} set search_path = pg_catalog`);
	await database.sql.unsafe(`create role ${role()} superuser login password '${password}'`);
	await addProject(database.sql, 'good', 'good-key');
});
afterAll(async () => {
	await database?.sql.unsafe(`drop role ${role()}`);
	await empty?.drop();
	await older?.drop();
	await withoutFunction?.drop();
	await elsewhere?.drop();
	await ascii?.drop();
});

describe('a service does not start, and says why', () => {
	/** Starts a service that must exit with 1 before it listens. @returns its standard error */
	async function refused(environment: Record<string, string>): Promise<string[]> {
		const service = start('personal-contacts', environment);
		expect(await service.exit).toBe(1);
		expect(service.log().filter(({ msg }) => msg.startsWith('Server listening'))).toEqual([]);
		expect(service.stderr()).toMatch(/\n$/);
		return service.stderr().trimEnd().split('\n');
	}

	test.each<[string, () => string, RegExp]>([
		['a wrong password', () => urlWithSecret({ password: `${password}-wrong` }), /refuses the user or the password/],
		['a missing database', () => urlWithSecret({ pathname: '/no_such_database' }), /database .* does not exist/],
		['a database without tables', () => empty.url, /no tables yet: run "contacts migrate"/],
		['a database in another encoding than UTF-8', () => ascii.url, /has the encoding SQL_ASCII, but it must be UTF8/],
		[
			'a search_path without the tables',
			() => elsewhere.url,
			/The search_path of the database or its user lacks the schema public/,
		],
		['tables of an older release', () => older.url, /older than this release: run "contacts migrate"/],
		['a schema that lacks a function', () => withoutFunction.url, /older than this release: run "contacts migrate"/],
		[
			'a parameter that the server refuses',
			() => urlWithSecret({ search: '?channel_binding=require' }),
			/DATABASE_URL is wrong: .* parameter "channel_binding": leave it out/,
		],
	])('in one line for %s', async (_, wrong, line) => {
		expect(await refused({ DATABASE_URL: wrong() })).toEqual([expect.stringMatching(line)]);
	});

	test('in one line for a port that is in use, and for a host that is no address of this machine', async () => {
		const other = createServer().listen(0, '127.0.0.1');
		onTestFinished(() => void other.close());
		await once(other, 'listening');
		const { port } = other.address() as { port: number };
		expect(await refused({ PORT: String(port) })).toEqual([expect.stringMatching(/port is in use .* set PORT/)]);
		expect(await refused({ HOST: 'host.invalid' })).toEqual(['HOST is no address of this machine.']);
	});
});

test('a request behind an upgrade in the same packet is not left without a response: the connection ends, at each address', async () => {
	const service = start('company-contacts', { HOST: 'localhost' });
	await service.listening();
	const urls = service.log().flatMap(({ msg }) => /^Server listening at (http:\S+)$/.exec(msg)?.[1] ?? []);
	expect(urls.length).toBeGreaterThan(0);
	const upgrade = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n';
	const get = (headers: string) => `GET /health/live HTTP/1.1\r\nHost: a\r\n${headers}\r\n`;
	for (const url of urls) {
		const received = await exchangeText(url, get(upgrade) + get(''));
		expect(received).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\nconnection: close\r\n/i);
	}
});

test.each<[ServiceName, string, string]>([
	['personal-contacts', 'POST', '/api/personal_contacts'],
	['company-contacts', 'GET', '/api/company_contacts.list'],
])(
	'%s starts without the database, live but not ready, serves as soon as the database is up, and stops on SIGINT with exit 0',
	async (name, method, path) => {
		const proxy = await startTcpProxy(urlWithSecret());
		onTestFinished(() => proxy.close());
		proxy.cut();
		const service = start(name, { DATABASE_URL: proxy.through(urlWithSecret()) });
		const address = await service.listening();
		const status = async (path: string, init: RequestInit = {}) => (await fetch(address + path, init)).status;
		const guess = () => status(`${path}?project=good&api_key=wrong`, { method });
		expect(await status('/health/live')).toBe(200);
		expect(await status('/health/ready')).toBe(503);
		// Without the database it cannot tell a right key from a wrong one.
		expect(await guess()).toBe(500);
		await expect.poll(() => service.log().map(({ msg }) => msg)).toContain('the database does not respond');

		await proxy.restore();
		await expect.poll(() => status('/health/ready')).toBe(200);
		await expect.poll(guess).toBe(401);
		await expect.poll(() => service.log().map(({ msg }) => msg)).toContain('the database responds again');
		service.kill('SIGINT');
		expect(await service.exit).toBe(0);
		expect(service.stderr()).toBe('');
	},
);

test('no process writes the password of DATABASE_URL to its output', () => {
	expect(written).toHaveLength(13);
	expect(written.join('\n')).not.toContain('canary');
});
