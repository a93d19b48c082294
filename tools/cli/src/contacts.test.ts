import { once } from 'node:events';
import { createServer } from 'node:net';
import { addProject } from '@contacts/testing/app.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import type { Command } from 'commander';
import { describe, expect, onTestFinished } from 'vitest';
import { withTransaction } from './connection.js';
import { createProgram } from './program.js';
import { contacts, expectOneLine, fileWith } from './testing/command.js';
import { ownDatabase } from './testing/own-database.js';

/** The commands that do something, by their words. */
function leaves(command: Command, words: string[] = []): [string, Command][] {
	const below = command.commands.flatMap((sub) => leaves(sub, [...words, sub.name()]));
	return below.length > 0 && command.name() !== 'sync' ? below : [[words.join(' '), command], ...below];
}

test.each(leaves(createProgram({})))('"%s --help" shows examples that are valid as they stand', async (words) => {
	const { code, stdout, stderr } = await contacts(undefined, [...words.split(' '), '--help']);
	expect([code, stderr]).toEqual([0, '']);
	const calls = [...(stdout.split('\nExamples:\n')[1] ?? '').matchAll(/contacts ([^<>|\n]+)/g)].map(([, call = '']) =>
		call.trim(),
	);
	expect(calls.some((call) => `${call} `.startsWith(`${words} `))).toBe(true);
	for (const call of calls) {
		let done = 0;
		const parser = createProgram({}).configureOutput({ writeErr: () => undefined });
		for (const [, leaf] of leaves(parser)) leaf.action(() => void done++);
		const given = [...call.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => String(quoted ?? plain));
		await parser.parseAsync(given, { from: 'user' });
		expect(done, call).toBe(1);
	}
});

const notChatIds = ['0', '-0', '007', '1.5', '1e3', 'abc', '', '9007199254740992'];

/** .NET's default of a time, in Moscow: in UTC it lies before the year 1. */
const beforeYearOne = '0001-01-01T00:00:00+03:00';

/** Calls that are refused with each of these values at their end, and what the line says. */
test.each<[call: string, values: string[], line: string]>([
	['project', ['nonsense'], 'unknown command'],
	['project list', ['--nonsense'], 'unknown option'],
	['project list', ['extra'], 'too many arguments'],
	['project create --', ['A', '-a', 'ä', 'a.b', 'x'.repeat(64), ''], 'A project code begins with'],
	['key create one --service', ['nonsense'], 'Allowed choices are personal-contacts, company-contacts'],
	['key create one --name', ['', 'x'.repeat(101), 'a\nb', '\u001b[2J'], '--name takes 1 to 100'],
	[
		'key create one --expires',
		['0', '-1', '1w', '1.5', ' 5', '100000', '', '2027-1-1', '2027-02-29', beforeYearOne],
		'--expires takes',
	],
	['key rotate 1 --overlap', ['7', '1w', '-1d', ''], '--overlap takes'],
	['key revoke --', ['0', '-1', 'abc', '1.5', '', '9'.repeat(20)], 'The ID of a key must be a positive integer'],
	['subscription start --', notChatIds, 'A chat ID is an integer other than 0'],
	['subscription end --', notChatIds, 'A chat ID is an integer other than 0'],
	['subscription list --', notChatIds, 'A chat ID is an integer other than 0'],
	['subscription start 83 --from', ['tomorrow', '', beforeYearOne], '--from takes a date'],
	['subscription start 83 --until', ['2026-02-30', beforeYearOne], '--until takes a date'],
	['subscription end 83 --at', ['', beforeYearOne], '--at takes a date'],
	['person', ['export', 'erase'], 'Say one of --chat, --phone and --bitrix'],
	['person erase --chat 1 --bitrix', ['2'], 'Say one of --chat, --phone and --bitrix'],
	['person export --chat', notChatIds, 'A chat ID is an integer other than 0'],
	['person export --phone', ['2025550101'], '--phone takes a valid number with a leading plus'],
	['person export --bitrix', ['1e3'], '--bitrix must be a positive integer'],
	['person', ['prune'], '--older-than'],
	['person prune --older-than', ['0', '1.5', '10000'], '--older-than takes'],
	['import', ['list.txt', '.csv', 'list.csv.gz', 'list.constructor', '-'], 'say --format'],
	['audit --limit', ['0'], '--limit must be a positive integer'],
])(
	'"%s" with one of %j is wrong usage: exit 2 with one line, before a database is asked',
	async (call, values, line) => {
		const environment = { LOCAL_DATA_DIR: await temporaryFolder() };
		for (const value of values)
			expectOneLine(await contacts(undefined, [...call.split(' '), value], { environment }), 2, line);
	},
);

test('a command without its subcommand is wrong usage, and prints the help', async () => {
	const outcome = await contacts(undefined, ['project']);
	expect(outcome).toEqual({ code: 2, stdout: '', stderr: expect.stringMatching(/^Usage: contacts project/) });
});

test.each([
	[['help', 'key', 'create'], /^Usage: contacts key create /],
	[['help', 'key'], /^Usage: contacts key /],
	[['key', 'help', 'create'], /^Usage: contacts key create /],
	[['help'], /^Usage: contacts /],
])('"%j" shows the help of that command', async (args, usage) => {
	expect(await contacts(undefined, args)).toEqual({ code: 0, stdout: expect.stringMatching(usage), stderr: '' });
});

test('help about an unknown command is wrong usage', async () => {
	expectOneLine(await contacts(undefined, ['help', 'key', 'nonsense']), 2, 'There is no command "key nonsense"');
});

/** Clears the screen, rings, moves back, begins a C1 sequence, reverses text, and begins a line that looks like ours. */
const hostile = '\u001b[2J\u0007\r\u007f\u009b31m\u202e\u2066\u2028\nerror: none';
const shown = '\\u001b[2J\\u0007\\u000d\\u007f\\u009b31m\\u202e\\u2066\\u2028\\u000aerror: none';

describe('a control character is shown as an escape, never executed', () => {
	test.beforeAll(async () => {
		await addProject(database.sql, 'alpha', 'alpha-key');
		await database.sql`update audit_log set actor = ${hostile}, details = ${JSON.stringify({ note: hostile })}::text::json`;
		const configuration = { portal: hostile, webhook_user: 1, trouble_options: [] };
		await database.sql`update crm_sync_state set configuration = ${JSON.stringify(configuration)}::text::jsonb`;
	});

	test.each<[string, () => string[] | Promise<string[]>, 'stdout' | 'stderr', string]>([
		[
			'from a column of a CSV file',
			// The line of column names is one line.
			async () => ['import', '--yes', await fileWith(`bitrix_id,"${hostile.replace('\n', '')}"\n1,a\n`)],
			'stderr',
			shown.replace('\\u000a', ''),
		],
		[
			'from NDJSON, where the message names only the line',
			async () => ['import', '--yes', await fileWith(JSON.stringify({ bitrix_id: 1, [hostile]: hostile }), 'x.ndjson')],
			'stderr',
			'line 1: a field that is not known\n',
		],
		['from the audit log', () => ['audit'], 'stdout', shown],
		['from the audit log as JSON', () => ['audit', '--json'], 'stdout', '\\u001b[2J\\u0007'],
		['from the CRM', () => ['sync', 'status'], 'stdout', '\\u001b[2J\\u0007'],
		['from the CRM as JSON', () => ['sync', 'status', '--json'], 'stdout', '\\u001b[2J\\u0007'],
		['from the name of a file', () => ['import', '--yes', `${hostile}.csv`], 'stderr', shown.replace(/\\u000a.*/, '')],
		['from an argument', () => ['project', 'disable', hostile], 'stderr', shown],
		['from the name of a command', () => [hostile], 'stderr', '\\u001b[2J\\u0007'],
		['from the name of an option', () => ['project', `--${hostile}`], 'stderr', '\\u001b[2J\\u0007'],
	])('%s', async (_, args, stream, text) => {
		const outcome = await contacts(database.url, await args());
		expect(outcome.stdout + outcome.stderr).not.toMatch(/(?!\n)[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/u);
		expect(outcome[stream]).toContain(text);
	});
});

describe('no database: exit 1 with one line, which shows no password', () => {
	const list = ['project', 'list'];
	const withPart = (part: Partial<URL>) => Object.assign(new URL(database.url), { password: 'canary', ...part }).href;

	test('without DATABASE_URL and without a local database', async () => {
		const outcome = await contacts(undefined, list, { environment: { LOCAL_DATA_DIR: await temporaryFolder() } });
		expectOneLine(outcome, 1, /DATABASE_URL.*pnpm@12 start/);
	});

	test.each<[string, Partial<URL>, RegExp]>([
		['nothing listens there', { port: '1' }, /^error: The database at [^ ]+:1 does not respond \(ECONNREFUSED\)/],
		// Without a name server the error differs, but the sentence is the same.
		['the host is unknown', { hostname: 'nowhere.invalid' }, /does not respond \((ENOTFOUND|EAI_AGAIN)\)/],
		['the password is wrong', {}, /refuses the user or the password/],
		['it asks for TLS', { search: '?sslmode=require' }, /has no TLS.*sslmode/],
		['there is no socket', { host: '%2Fnowhere' }, /does not respond \(ENOENT\)/],
	])('%s', async (_, part, line) => {
		for (const call of [list, ['migrate'], ['subscription', 'end', '1']]) {
			const outcome = await contacts(withPart(part), call);
			expectOneLine(outcome, 1, line);
			expect(outcome.stderr).not.toContain('canary');
		}
	});

	test.each([
		['sslrootcert=x', 'refuses its parameter "sslrootcert": set NODE_EXTRA_CA_CERTS'],
		['pgbouncer=true', 'refuses its parameter "pgbouncer": leave it out'],
		['host=/tmp', 'refuses its parameter "host": write the host before'],
	])('a parameter of other clients is named: %s', async (parameter, line) => {
		expectOneLine(await contacts(`${database.url}?${parameter}`, list), 1, line);
	});

	test('a load balancer without a server accepts connections and closes them', async () => {
		const server = createServer((socket) => void socket.on('error', () => undefined).end()).listen(0, '127.0.0.1');
		onTestFinished(() => void server.close());
		await once(server, 'listening');
		const { port } = server.address() as { port: number };
		expectOneLine(await contacts(withPart({ port: String(port) }), list), 1, 'does not respond (CONNECT_TIMEOUT)');
	});

	test('a pooler without a server refuses the login, so nothing was done', async () => {
		const fields = 'SFATAL\0VFATAL\0C08P01\0Mserver login failed\0\0';
		const refusal = Buffer.concat([Buffer.from('E\0\0\0'), Buffer.from([fields.length + 4]), Buffer.from(fields)]);
		const server = createServer((socket) => void socket.once('data', () => socket.end(refusal))).listen(0, '127.0.0.1');
		onTestFinished(() => void server.close());
		await once(server, 'listening');
		const { port } = server.address() as { port: number };
		const outcome = await contacts(withPart({ port: String(port) }), ['key', 'create', 'acme']);
		expectOneLine(outcome, 1, 'does not respond (08P01)');
	});

	test('an invalid DATABASE_URL is not echoed', async () => {
		const outcome = await contacts('canary-nonsense', list);
		expectOneLine(outcome, 1, 'DATABASE_URL');
		expect(outcome.stderr).not.toContain('canary');
	});

	test('not migrated: it says how to', async () => {
		const unmigrated = await ownDatabase('template0');
		expectOneLine(await contacts(unmigrated.url, list), 1, 'run "contacts migrate" first');
	});
});

test('a transaction whose connection is lost changes nothing, and its rest runs nowhere', async () => {
	const outcome = withTransaction({ DATABASE_URL: database.url }, async (sql) => {
		await sql`insert into projects (code) values ('lost')`;
		const [{ pid }] = await sql<[{ pid: number }]>`select pg_backend_pid() as pid`;
		await database.sql`select pg_terminate_backend(${pid})`;
		await expect(sql`select 1`).rejects.toThrow();
		await sql`insert into projects (code) values ('outside')`;
	});
	await expect(outcome).rejects.toThrow();
	expect(await database.sql`select from projects where code in ('lost', 'outside')`).toHaveLength(0);
});

test('a search_path without the tables is named, in place of the advice to migrate', async () => {
	const own = await ownDatabase();
	await own.sql.unsafe(`alter database ${new URL(own.url).pathname.slice(1)} set search_path = pg_catalog`);
	expectOneLine(await contacts(own.url, ['project', 'list']), 1, 'The search_path of the database or its user lacks');
	expectOneLine(await contacts(own.url, ['migrate']), 1, 'The search_path of the database or its user lacks');
});
