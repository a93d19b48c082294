import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database as migrated, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';
import { contacts, expectOneLine } from './testing/command.js';
import { ownDatabase } from './testing/own-database.js';

describe('no database, exit 1 with one line', () => {
	const list = ['project', 'list'];
	const withPart = (change: (url: URL) => void) => {
		const url = new URL(migrated.url);
		change(url);
		return url.href;
	};

	test('without DATABASE_URL and without a local database: says what to do', async () => {
		const outcome = await contacts(undefined, list, { environment: { LOCAL_DATA_DIR: await temporaryFolder() } });
		expectOneLine(outcome, 1, /DATABASE_URL.*pnpm@12 start/);
	});

	test.each<[string, (url: URL) => Partial<URL>]>([
		['does not respond (ECONNREFUSED)', () => ({ port: '1' })],
		['refuses the password', () => ({ password: 'earlier' })],
	])('the file of a local database that was killed: %s', async (reason, change) => {
		const folder = await temporaryFolder();
		const url = withPart((parts) => Object.assign(parts, change(parts)));
		writeFileSync(join(folder, 'database.json'), JSON.stringify({ url, pid: process.pid }));
		const outcome = await contacts(undefined, list, { environment: { LOCAL_DATA_DIR: folder } });
		expectOneLine(outcome, 1, /There is no database: .*pnpm@12 start/);
		expect(outcome.stderr).toContain(reason);
	});

	test.each<[string, (url: URL) => Partial<URL>, RegExp]>([
		['nothing listens there', () => ({ port: '1' }), /does not respond \(ECONNREFUSED\)/],
		// Without a name server the error differs, but the sentence is the same.
		['the host is unknown', () => ({ hostname: 'nowhere.invalid' }), /does not respond \((ENOTFOUND|EAI_AGAIN)\)/],
		['the password is wrong', () => ({ password: 'canary-password' }), /refuses the user or the password/],
		['there is no such database', () => ({ pathname: '/no_such_database' }), /does not exist/],
	])('%s', async (_, change, line) => {
		const url = withPart((parts) => Object.assign(parts, change(parts)));
		for (const call of [list, ['migrate']]) {
			const outcome = await contacts(url, call);
			expectOneLine(outcome, 1, line);
			expect(outcome.stderr).not.toContain('canary');
		}
	});

	test('a load balancer without a server listens there: it accepts connections and closes them', async () => {
		const server = createServer((socket) => void socket.on('error', () => undefined).end()).listen(0, '127.0.0.1');
		onTestFinished(() => void server.close());
		await once(server, 'listening');
		const { port } = server.address() as { port: number };
		const url = withPart((parts) => Object.assign(parts, { port: String(port) }));
		expectOneLine(await contacts(url, list), 1, 'does not respond (CONNECT_TIMEOUT)');
	});

	test('of several hosts a usable one is found; when there is none, each is named with the reason', async () => {
		const { host } = new URL(migrated.url);
		const urlOf = (...hosts: string[]) => migrated.url.replace(host, hosts.join());
		const none = /127\.0\.0\.1:1 \(ECONNREFUSED\); \[::1\]:2 \(E\w+\)/;
		expectOneLine(await contacts(urlOf('127.0.0.1:1', '[::1]:2'), list), 1, none);
		expect((await contacts(urlOf('127.0.0.1:1', host), list)).code).toBe(0);
	});

	test('an invalid DATABASE_URL is named but not echoed', async () => {
		const outcome = await contacts('canary-nonsense', list);
		expectOneLine(outcome, 1, 'DATABASE_URL');
		expect(outcome.stderr).not.toContain('canary');
	});

	test('not migrated: it says how to', async () => {
		const unmigrated = await ownDatabase('template0');
		expectOneLine(await contacts(unmigrated.url, list), 1, 'run "contacts migrate" first');
	});
});
