import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database as empty, testOn } from '@contacts/testing/test.js';
import type { Command } from 'commander';
import { afterAll, describe, expect } from 'vitest';
import { createProgram } from './program.js';
import { contacts, spawnContacts } from './testing/command.js';
import { ownDatabase } from './testing/own-database.js';

const test = testOn('template0');
let migrated: TestDatabase;

test.beforeAll(async () => {
	migrated = await createTestDatabase();
});
afterAll(() => migrated?.drop());

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
		['import file.csv --format xml', 'csv, ndjson'],
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
		expect(first.stdout).toMatch(/^Applied: 1\.keys-and-audit, 2\.personal-contacts, .+\.\n$/);
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
		const database = await ownDatabase('template0');
		const outcomes = await Promise.all([1, 2, 3].map(() => contacts(database.url, ['migrate', '--json'])));
		expect(outcomes.map(({ code }) => code)).toEqual([0, 0, 0]);
		const applied = outcomes.map(({ stdout }) => JSON.parse(stdout).applied.length);
		expect(applied.filter((count) => count > 0)).toHaveLength(1);
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
