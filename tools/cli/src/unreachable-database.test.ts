import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createTestDatabase, serverUrl, type TestDatabase } from '@contacts/testing/database.js';
import { freePort } from '@contacts/testing/ports.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database as migrated, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';
import { contacts, expectOneLine } from './testing/command.js';

let unmigrated: TestDatabase;

test.beforeAll(async () => {
	unmigrated = await createTestDatabase('template0');
});
afterAll(() => unmigrated?.drop());

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

	test.each<[string, () => string]>([
		['does not respond (ECONNREFUSED)', () => withPart((url) => Object.assign(url, { port: '1' }))],
		['refuses the password', () => withPart((url) => Object.assign(url, { password: 'earlier' }))],
	])('the file of a local database that was killed: %s', async (reason, url) => {
		const folder = await temporaryFolder();
		writeFileSync(join(folder, 'database.json'), JSON.stringify({ url: url(), pid: process.pid }));
		const outcome = await contacts(undefined, list, { environment: { LOCAL_DATA_DIR: folder } });
		expectOneLine(outcome, 1, /There is no database: .*pnpm@12 start/);
		expect(outcome.stderr).toContain(reason);
	});

	test.each(['list', 'migrate'])('nothing listens there (%s)', async (command) => {
		const port = await freePort();
		const url = withPart((parts) => {
			parts.port = String(port);
		});
		expectOneLine(await contacts(url, command === 'list' ? list : ['migrate']), 1, 'does not respond (ECONNREFUSED)');
	});

	test.each(['list', 'migrate'])('the host is unknown (%s)', async (command) => {
		const url = withPart((parts) => {
			parts.hostname = 'nowhere.invalid';
		});
		// Without a name server the error differs, but the sentence is the same.
		expectOneLine(
			await contacts(url, command === 'list' ? list : ['migrate']),
			1,
			/does not respond \((ENOTFOUND|EAI_AGAIN)\)/,
		);
	});

	test('a load balancer without a server listens there: it accepts connections and closes them', async () => {
		const server = createServer((socket) => void socket.on('error', () => undefined).end()).listen(0, '127.0.0.1');
		await once(server, 'listening');
		const { port } = server.address() as { port: number };
		try {
			const url = withPart((parts) => {
				parts.port = String(port);
			});
			const calls = [list, ['migrate']];
			const outcomes = await Promise.all(calls.map((call) => contacts(url, call)));
			for (const outcome of outcomes) expectOneLine(outcome, 1, 'does not respond (CONNECT_TIMEOUT)');
		} finally {
			server.close();
		}
	});

	test.each(['list', 'migrate'])('the password is wrong (%s)', async (command) => {
		const url = withPart((parts) => {
			parts.password = 'canary-password';
		});
		const outcome = await contacts(url, command === 'list' ? list : ['migrate']);
		expectOneLine(outcome, 1, 'refuses the user or the password');
		expect(outcome.stderr).not.toContain('canary');
	});

	test('there is no such database', async () => {
		expectOneLine(await contacts(serverUrl('no_such_database'), list), 1, 'does not exist');
	});

	test('of several hosts a usable one is found; when there is none, each is named with the reason', async () => {
		const { host } = new URL(migrated.url);
		const urlOf = (...hosts: string[]) => migrated.url.replace(host, hosts.join());
		expectOneLine(
			await contacts(urlOf('127.0.0.1:1', '[::1]:2'), list),
			1,
			/127\.0\.0\.1:1 \(ECONNREFUSED\); \[::1\]:2 \(E\w+\)/,
		);
		expect((await contacts(urlOf('127.0.0.1:1', host), list)).code).toBe(0);
	});

	test('an invalid DATABASE_URL is named but not echoed', async () => {
		const outcome = await contacts('canary-nonsense', list);
		expectOneLine(outcome, 1, 'DATABASE_URL');
		expect(outcome.stderr).not.toContain('canary');
	});

	test.each(['project list', 'subscription end 1'])('not migrated: %s says how to', async (command) => {
		expectOneLine(await contacts(unmigrated.url, command.split(' ')), 1, 'run "contacts migrate" first');
	});
});
