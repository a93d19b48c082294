import { createHash } from 'node:crypto';
import { PassThrough, Readable } from 'node:stream';
import { isGeneratedKey, maxKeyLength } from '@contacts/common/auth/api-key.js';
import { service } from '@contacts/company-contacts/app.js';
import { startTestApp, type TestApp } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';
import { runContacts } from '../run.js';
import { contacts, environmentOf, expectOneLine, expectWrongUsage, type RunOptions } from '../testing/command.js';

let app: TestApp;

test.beforeAll(async () => {
	await database.sql`insert into projects (code) values ('one'), ('two')`;
	app = await startTestApp(service, database.url);
});
afterAll(() => app?.close());

const run = (args: string[], options?: RunOptions) => contacts(database.url, ['key', ...args], options);
const create = async (...args: string[]) => JSON.parse((await run(['create', 'one', '--json', ...args])).stdout);
const statusOf = async (key: string, project = 'one') => {
	await app.keyRing.refresh();
	const query = new URLSearchParams({ project, api_key: key });
	return (await app.fetch(`/api/company_contacts.list?${query}`)).status;
};
const sha256 = (key: string) => createHash('sha256').update(key).digest('hex');

/** The tables of the whole database that have this text in any column. Bytes are searched as hex. */
async function tablesWith(text: string): Promise<string[]> {
	const tables = await database.sql<{ name: string }[]>`
		select format('%I.%I', schemaname, tablename) as name from pg_tables
		where schemaname not in ('pg_catalog', 'information_schema')`;
	const found: string[] = [];
	for (const { name } of tables) {
		const rows = await database.sql`
			select from ${database.sql.unsafe(name)} as stored where position(${text} in stored::text) > 0`;
		if (rows.length > 0) found.push(name);
	}
	return found;
}

describe('key create', () => {
	test('prints only the key on standard output, and the service accepts it for its project only', async () => {
		const outcome = await run(['create', 'one']);
		expect(outcome.code).toBe(0);
		const key = outcome.stdout.trimEnd();
		expect(outcome.stdout).toBe(`${key}\n`);
		expect(isGeneratedKey(key)).toBe(true);
		expect(outcome.stderr).toMatch(/^This is key \d+ of one\. It is shown only now: keep it safe\.\n$/);
		expect(await statusOf(key)).toBe(200);
		expect(await statusOf(key, 'two')).toBe(401);
	});

	test('the database stores only the SHA-256 of a key', async () => {
		const { key } = await create();
		expect(await tablesWith(sha256(key))).toEqual(['public.api_keys']);
		expect(await tablesWith(key)).toEqual([]);
		expect(await tablesWith(Buffer.from(key).toString('hex'))).toEqual([]);
		expect((await run(['list', '--json'])).stdout).not.toContain(key);
	});

	test('--json prints the whole record and nothing else', async () => {
		const outcome = await run(['create', 'one', '--json']);
		expect([outcome.code, outcome.stderr]).toEqual([0, '']);
		const record = JSON.parse(outcome.stdout);
		expect(record).toEqual({
			id: expect.any(Number),
			project: 'one',
			name: null,
			service: null,
			expires_at: null,
			key: expect.stringMatching(/^cck_\w{49}$/),
		});
	});

	test('--service makes a key that this service accepts and the other refuses', async () => {
		const own = await create('--service', 'company-contacts');
		const other = await create('--service', 'personal-contacts');
		expect([own.service, other.service]).toEqual(['company-contacts', 'personal-contacts']);
		expect([await statusOf(own.key), await statusOf(other.key)]).toEqual([200, 401]);
	});

	test('fails for a project that does not exist', async () => {
		expectOneLine(await run(['create', 'missing']), 1, 'contacts project create missing');
	});
});

describe('--stdin', () => {
	const given = (input: string | Buffer, ...more: string[]) => run(['create', 'one', '--stdin', ...more], { input });

	test.each([
		['a line', 'canary-Partner+Key/=1\n', 'canary-Partner+Key/=1'],
		['a line of Windows', 'canary-key-2\r\n', 'canary-key-2'],
		['a line without its end, after a byte order mark', '\uFEFFcanary-ключ-🙂', 'canary-ключ-🙂'],
		['the longest', `canary${'x'.repeat(maxKeyLength - 6)}`, `canary${'x'.repeat(maxKeyLength - 6)}`],
	])('imports a key that works, and never prints or stores it: %s', async (_, input, key) => {
		const outcome = await given(input);
		expect(outcome).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Imported as key \d+ of one\.\n$/) });
		expect(outcome.stdout + outcome.stderr).not.toContain('canary');
		expect(await statusOf(key)).toBe(200);
		expect(await tablesWith(key)).toEqual([]);
		expect(await tablesWith(sha256(key))).toEqual(['public.api_keys']);
	});

	test('--json does not print an imported key', async () => {
		const outcome = await given('canary-json', '--json');
		expect(JSON.parse(outcome.stdout)).toEqual({
			id: expect.any(Number),
			project: 'one',
			name: null,
			service: null,
			expires_at: null,
		});
	});

	test('importing the same key twice fails for one project, and succeeds for another', async () => {
		expect((await given('canary-twice')).code).toBe(0);
		const again = await given('canary-twice');
		expectOneLine(again, 1, 'has, or had, this very key');
		expect(again.stderr).not.toContain('canary');
		expect((await run(['create', 'two', '--stdin'], { input: 'canary-twice' })).code).toBe(0);
	});

	test.each([
		['nothing', ''],
		['white space within', 'canary key'],
		['two lines', 'canary\nkey\n'],
		['a control character', 'canary\u0007'],
		['one character too many', `canary${'x'.repeat(maxKeyLength - 5)}`],
		['bytes that are not UTF-8', Buffer.from([0x63, 0x61, 0xff, 0x6e])],
	])('an invalid key is wrong usage, is not echoed and is not stored: %s', async (_, input) => {
		const before = await database.sql`select count(*)::int from api_keys`;
		const outcome = await given(input);
		expectOneLine(outcome, 2, '--stdin takes one line with the key');
		expect(outcome.stderr).not.toContain('canary');
		expect(await database.sql`select count(*)::int from api_keys`).toEqual(before);
	});

	test('input without an end is refused and not read on', async () => {
		let read = 0;
		async function* endless() {
			for (; read < 1000; read++) yield Buffer.alloc(65_536, 'x');
		}
		const [stdout, stderr] = [new PassThrough(), new PassThrough()];
		const args = ['key', 'create', 'one', '--stdin'];
		const streams = { stdin: Readable.from(endless()), stdout, stderr };
		expect(await runContacts(args, environmentOf(database.url), streams)).toBe(2);
		expect(read).toBeLessThan(100);
	});
});

describe('--name', () => {
	test('appears in the output of create, in the list and in the audit log, and a rotated key keeps it', async () => {
		const name = 'billing job, ключ 1';
		const { id, ...made } = await create('--name', name);
		expect(made).toMatchObject({ name });
		const rotated = JSON.parse((await run(['rotate', String(id), '--json'])).stdout);
		const listed: { id: number; name: string | null }[] = JSON.parse((await run(['list', '--json'])).stdout);
		for (const key of [id, rotated.id]) expect(listed.find((row) => row.id === key)?.name).toBe(name);
		await run(['revoke', String(id)]);
		const log: { key_id: number; action: string; details: object }[] = JSON.parse(
			(await contacts(database.url, ['audit', 'one', '--json'])).stdout,
		);
		const ofKey = log.filter(({ key_id }) => key_id === id);
		expect(ofKey.map(({ action }) => action)).toEqual(['key revoked', 'key expiry changed', 'key created']);
		for (const { details } of ofKey) expect(details).toMatchObject({ name });
	});

	test.each(['', 'x'.repeat(101), 'two\nlines', '\u001b[2J'])('an invalid name makes no key: %j', async (name) => {
		const before = await database.sql`select count(*)::int from api_keys`;
		expectOneLine(await run(['create', 'one', '--name', name]), 2, '--name takes 1 to 100 characters');
		expect(await database.sql`select count(*)::int from api_keys`).toEqual(before);
	});
});

describe('key list and key revoke', () => {
	test('list shows all keys, or those of one project, with their state', async () => {
		const codes = async (...args: string[]) =>
			new Set(
				JSON.parse((await run(['list', '--json', ...args])).stdout).map((row: { project: string }) => row.project),
			);
		await run(['create', 'two']);
		expect(await codes()).toEqual(new Set(['one', 'two']));
		expect(await codes('two')).toEqual(new Set(['two']));
		expect((await run(['list'])).stdout).toMatch(/^id +project +service +state/);
	});

	test('a revoked key no longer opens the service, and stays in the list as revoked', async () => {
		const { id, key } = await create();
		expect(await statusOf(key)).toBe(200);
		expect(await run(['revoke', String(id)])).toEqual({ code: 0, stdout: `Key ${id} is revoked.\n`, stderr: '' });
		expect(await statusOf(key)).toBe(401);
		const rows: { id: number; state: string }[] = JSON.parse((await run(['list', 'one', '--json'])).stdout);
		expect(rows.find((row) => row.id === id)).toMatchObject({ state: 'revoked' });
	});

	test('revoking a revoked or unknown key fails, and tells when it was revoked', async () => {
		const { id } = await create();
		expect(JSON.parse((await run(['revoke', String(id), '--json'])).stdout)).toEqual({ id, state: 'revoked' });
		expectOneLine(
			await run(['revoke', String(id)]),
			1,
			new RegExp(`Key ${id} of one was revoked at \\d{4}-\\S+Z\\.$`, 'm'),
		);
		expectOneLine(await run(['revoke', '999999']), 1, 'There is no key 999999');
	});

	test.each(['0', '-1', 'abc', '1.5', '', '99999999999999999999'])('an invalid ID is wrong usage: %j', async (id) => {
		await expectWrongUsage(database.url, ['key', 'revoke', id], 'The ID of a key is a positive integer');
	});
});
