import { once } from 'node:events';
import { createServer } from 'node:net';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { migrate } from '@contacts/common/database/migrate.js';
import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { test } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { addSecret, dropSecret, expectSecretUnwritten, password, start, urlWithSecret } from './service-with-secret.js';

let empty: TestDatabase;
let older: TestDatabase;
let ascii: TestDatabase;

test.beforeAll(async () => {
	empty = await createTestDatabase('template0');
	older = await createTestDatabase('template0');
	ascii = await createTestDatabase('template0', 'SQL_ASCII');
	// Before a column that the services read.
	await migrate(older.url);
	await older.sql`alter table projects drop column sandbox`;
	await addSecret();
});
afterAll(async () => {
	await dropSecret();
	await empty?.drop();
	await older?.drop();
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

	test('in one line for each variable that is wrong', async () => {
		const lines = await refused({ DATABASE_URL: '', PORT: password, LOG_LEVEL: password, DATABASE_POOL_SIZE: '0' });
		expect(lines.map((line) => line.split(' ').slice(0, 3).join(' ')).toSorted()).toEqual([
			'DATABASE_POOL_SIZE is wrong:',
			'DATABASE_URL is not',
			'LOG_LEVEL is wrong:',
			'PORT is wrong:',
		]);
	});

	test.each<[string, () => string, RegExp]>([
		['a wrong password', () => urlWithSecret({ password: `${password}-wrong` }), /refuses the user or the password/],
		['a missing database', () => urlWithSecret({ pathname: '/no_such_database' }), /database .* does not exist/],
		['a database without tables', () => empty.url, /no tables yet: run "contacts migrate"/],
		['a database in another encoding than UTF-8', () => ascii.url, /has the encoding SQL_ASCII, but it must be UTF8/],
		['tables of an older release', () => older.url, /older than this release: run "contacts migrate"/],
		[
			'a parameter that the server refuses',
			() => urlWithSecret({ search: '?channel_binding=require' }),
			/DATABASE_URL is wrong: .* parameters/,
		],
		[
			'an unknown sslmode',
			() => urlWithSecret({ search: '?sslmode=verify_full' }),
			/DATABASE_URL is wrong: .* sslmode may be disable, .* verify-full\.$/,
		],
		['a URL without a host', () => 'postgres:///contacts', /DATABASE_URL is wrong: .*@host:5432/],
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

test('no process writes the password of DATABASE_URL to its output', () => expectSecretUnwritten(13));
