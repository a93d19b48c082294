import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { freePort } from '@contacts/local-postgres/server.js';
import { createTestDatabase, serverUrl, type TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database as empty, test } from '@contacts/testing/test.js';
import type { Command } from 'commander';
import { afterAll, describe, expect } from 'vitest';
import { createProgram } from './program.js';
import { contacts, expectOneLine, spawnContacts } from './testing/command.js';

let unmigrated: TestDatabase;
let migrated: TestDatabase;

test.override('template', 'template0');
test.beforeAll(async () => {
	unmigrated = await createTestDatabase('template0');
	migrated = await createTestDatabase();
});
afterAll(async () => {
	await unmigrated?.drop();
	await migrated?.drop();
});

/** The full names of all subcommands. */
function commandsBelow(command: Command, names: string[] = []): string[][] {
	return [names, ...command.commands.flatMap((below) => commandsBelow(below, [...names, below.name()]))];
}

describe('--help', () => {
	test.each(commandsBelow(createProgram({})).map((names) => names.join(' ')))(
		'of "%s" prints its arguments and options on standard output, exit 0',
		async (command) => {
			const outcome = await contacts(undefined, [...command.split(' ').filter(Boolean), '--help']);
			expect(outcome).toMatchObject({ code: 0, stderr: '' });
			expect(outcome.stdout).toContain(`Usage: ${`contacts ${command}`.trim()} [options]`);
		},
	);

	test('every command that the README names exists', () => {
		const names = commandsBelow(createProgram({})).map((path) => path.join(' '));
		expect(names).toEqual(
			expect.arrayContaining([
				'migrate',
				...['create', 'list', 'disable', 'enable'].map((name) => `project ${name}`),
				...['create', 'list', 'revoke'].map((name) => `key ${name}`),
				...['start', 'end', 'list'].map((name) => `subscription ${name}`),
				'import',
			]),
		);
	});
});

test('--help loads no module that only the work of a command needs', async () => {
	const folder = await temporaryFolder();
	await spawnContacts(undefined, ['--help'], { environment: { NODE_V8_COVERAGE: folder } });
	const [report = ''] = await readdir(folder);
	const { result } = JSON.parse(await readFile(join(folder, report), 'utf8')) as { result: { url: string }[] };
	const packages = result.flatMap(({ url }) => /.*\/node_modules\/((@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? []);
	expect(new Set(packages)).toEqual(new Set(['commander']));
});

describe('wrong usage, exit 2', () => {
	test.each([
		['nonsense', "unknown command 'nonsense'"],
		['project nonsense', "unknown command 'nonsense'"],
		['project list --nonsense', "unknown option '--nonsense'"],
		['project list extra', 'too many arguments'],
		['project create', "missing required argument 'code'"],
		['key revoke', "missing required argument 'id'"],
		['key create code --service nonsense', 'personal-contacts, company-contacts'],
		['key create code --expires', 'argument missing'],
		['subscription start', "missing required argument 'chat_id'"],
		['import', "missing required argument 'file'"],
		['import file.csv --format xml', 'csv, json, ndjson'],
	])('%s', async (command, part) => {
		const outcome = await contacts(migrated.url, command.split(' '));
		expect(outcome).toMatchObject({ code: 2, stdout: '' });
		expect(outcome.stderr).toMatch(/^error: /);
		expect(outcome.stderr).toContain(part);
		expect(outcome.stderr).not.toMatch(/^\s+at /m);
	});

	test.each(['', 'project', 'key', 'subscription'])('"%s" without a subcommand shows the help', async (command) => {
		const outcome = await contacts(migrated.url, command.split(' ').filter(Boolean));
		expect(outcome).toMatchObject({ code: 2, stdout: '' });
		expect(outcome.stderr).toMatch(/^Usage: contacts/);
	});
});

describe('migrate', () => {
	test('brings an empty database up to date, and the second time reports that it is', async () => {
		const first = await contacts(empty.url, ['migrate']);
		expect(first).toMatchObject({ code: 0, stderr: '' });
		expect(first.stdout).toMatch(/^Applied: 1\.projects-and-api-keys, 2\.personal-contacts, .+\.\n$/);
		const tables = await empty.sql<{ name: string }[]>`
			select table_name as name from information_schema.tables where table_schema = 'public'`;
		expect(tables.map(({ name }) => name)).toEqual(
			expect.arrayContaining(['projects', 'api_keys', 'personal_contacts', 'direct_subscriptions', 'company_contacts']),
		);
		expect(await contacts(empty.url, ['migrate'])).toEqual({
			code: 0,
			stdout: 'The schema is up to date.\n',
			stderr: '',
		});
		expect(JSON.parse((await contacts(empty.url, ['migrate', '--json'])).stdout)).toMatchObject({ applied: [] });
	});

	test('of several concurrent runs all succeed, and one applies the migrations', async () => {
		const database = await createTestDatabase('template0');
		try {
			const outcomes = await Promise.all([1, 2, 3].map(() => contacts(database.url, ['migrate', '--json'])));
			expect(outcomes.map(({ code }) => code)).toEqual([0, 0, 0]);
			const applied = outcomes.map(({ stdout }) => JSON.parse(stdout).applied.length);
			expect(applied.filter((count) => count > 0)).toHaveLength(1);
		} finally {
			await database.drop();
		}
	});
});

test('as a separate process the command exits with 0, 1 or 2 and prints the same', async () => {
	const calls = [
		['project', 'list'],
		['project', 'disable', 'missing'],
		['project', 'nonsense'],
	];
	const outcomes = await Promise.all(calls.map((call) => spawnContacts(migrated.url, call)));
	expect(outcomes.map(({ code }) => code)).toEqual([0, 1, 2]);
	expect(outcomes).toEqual(await Promise.all(calls.map((call) => contacts(migrated.url, call))));
});

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

	test('an empty DATABASE_URL counts as not set', async () => {
		expectOneLine(
			await contacts('', list, { environment: { LOCAL_DATA_DIR: await temporaryFolder() } }),
			1,
			'set DATABASE_URL',
		);
	});

	test.each(['list', 'migrate'])('nothing listens there (%s)', async (command) => {
		const port = await freePort();
		const url = withPart((parts) => {
			parts.port = String(port);
		});
		expectOneLine(await contacts(url, command === 'list' ? list : ['migrate']), 1, 'does not answer (ECONNREFUSED)');
	});

	test.each(['list', 'migrate'])('the host is unknown (%s)', async (command) => {
		const url = withPart((parts) => {
			parts.hostname = 'nowhere.invalid';
		});
		// Without a name server the error differs, but the sentence is the same.
		expectOneLine(
			await contacts(url, command === 'list' ? list : ['migrate']),
			1,
			/does not answer \((ENOTFOUND|EAI_AGAIN)\)/,
		);
	});

	// Both tests wait for the timeout of the command.
	test.concurrent('something else listens there and hangs up', async () => {
		const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
		await once(server, 'listening');
		const { port } = server.address() as { port: number };
		try {
			const url = withPart((parts) => {
				parts.port = String(port);
			});
			expectOneLine(await contacts(url, list), 1, 'does not answer');
		} finally {
			server.close();
		}
	});

	test.concurrent('a load balancer without a server listens there: it accepts connections and closes them', async () => {
		const server = createServer((socket) => void socket.on('error', () => undefined).end()).listen(0, '127.0.0.1');
		await once(server, 'listening');
		const { port } = server.address() as { port: number };
		try {
			const url = withPart((parts) => {
				parts.port = String(port);
			});
			const calls = [list, ['migrate'], ['backup', '-']];
			const outcomes = await Promise.all(calls.map((call) => contacts(url, call)));
			for (const outcome of outcomes) expectOneLine(outcome, 1, 'does not answer (CONNECT_TIMEOUT)');
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

	test('the user is unknown', async () => {
		const url = withPart((parts) => {
			parts.username = 'nobody_here';
		});
		expectOneLine(await contacts(url, list), 1, 'refuses the user or the password');
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

	test.each([
		'project list',
		'project create a',
		'key list',
		'key revoke 1',
		'subscription list',
		'subscription end 1',
	])('not migrated: %s says how to', async (command) => {
		expectOneLine(await contacts(unmigrated.url, command.split(' ')), 1, 'run "contacts migrate" first');
	});
});
