import { createHash } from 'node:crypto';
import { PassThrough, Readable } from 'node:stream';
import { maxKeyLength } from '@contacts/common/auth/api-key.js';
import { service } from '@contacts/company-contacts/app.js';
import { urlAs } from '@contacts/migrations/roles.js';
import { startTestApp, type TestApp } from '@contacts/testing/app.js';
import { rolePassword, withConnection } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished, vi } from 'vitest';
import { runContacts } from '../program.js';
import { contacts, environmentOf, expectOneLine } from '../testing/command.js';
import { lockWaiters, ownDatabase } from '../testing/own-database.js';

const day = 86_400_000;
let app: TestApp;
/** Milliseconds that the service's clock is ahead of the database's. */
let ahead = 0;

test.beforeAll(async () => {
	await database.sql`insert into projects (code) values ('one'), ('two')`;
	app = await startTestApp(service, database.url, { now: () => Date.now() + ahead });
});
afterAll(() => app?.close());

const run = (...args: string[]) => contacts(database.url, ['key', ...args]);
const json = async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout);
const create = (...args: string[]) => json('create', 'one', ...args);
const countKeys = () => database.sql`select count(*)::int from api_keys`;
const sha256 = (key: string) => createHash('sha256').update(key).digest('hex');

/** What the service responds to this key, now or later. */
async function statusOf(key: string, { project = 'one', later = 0 } = {}): Promise<number> {
	ahead = later;
	await app.poll.refresh(4000);
	const query = new URLSearchParams({ project, api_key: key });
	return (await app.fetch(`/api/company_contacts.list?${query}`)).status;
}
/** Days from now, to the nearest hundredth. */
const daysUntil = (time: string) => Math.round(((Date.parse(time) - Date.now()) / day) * 100) / 100;

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

/** Expects that the database stores only the SHA-256 of a key. */
async function expectHashed(key: string): Promise<void> {
	expect(await tablesWith(sha256(key))).toEqual(['public.api_keys']);
	expect(await tablesWith(key)).toEqual([]);
	expect(await tablesWith(Buffer.from(key).toString('hex'))).toEqual([]);
	expect((await run('list', '--json')).stdout).not.toContain(key);
}

describe('key create', () => {
	test('prints only the key on standard output; it is stored as a hash and opens its project only', async () => {
		const outcome = await run('create', 'one');
		const key = outcome.stdout.trimEnd();
		expect(outcome).toEqual({
			code: 0,
			stdout: `${key}\n`,
			stderr: expect.stringMatching(/^This is key \d+ of one\./),
		});
		expect(key).toMatch(/^cck_[0-9A-Za-z]{49}$/);
		expect([await statusOf(key), await statusOf(key, { project: 'two' })]).toEqual([200, 401]);
		await expectHashed(key);
	});

	test('--service makes a key that this service accepts and the other refuses', async () => {
		const [own, other] = [
			await create('--service', 'company-contacts'),
			await create('--service', 'personal-contacts'),
		];
		expect([await statusOf(own.key), await statusOf(other.key)]).toEqual([200, 401]);
		expectOneLine(await run('create', 'missing'), 1, 'There is no project "missing"');
	});
});

describe('key create --stdin', () => {
	const given = (input: string | Buffer, ...more: string[]) =>
		contacts(database.url, ['key', 'create', 'one', '--stdin', ...more], { input });

	test.each([
		['a line', 'canary-Partner+Key/=1\n', 'canary-Partner+Key/=1'],
		['a line of Windows', 'canary-Partner-2\r\n', 'canary-Partner-2'],
		['a line without its end, after a byte order mark', '\uFEFFcanary-ключ-партнёра-🙂', 'canary-ключ-партнёра-🙂'],
		['the longest', `canary${'x'.repeat(maxKeyLength - 6)}`, `canary${'x'.repeat(maxKeyLength - 6)}`],
	])('imports a key that works, and never prints or stores it: %s', async (_, input, key) => {
		const outcome = await given(input);
		expect(outcome).toEqual({ code: 0, stdout: expect.stringMatching(/^Imported as key \d+ of one\.\n$/), stderr: '' });
		expect(await statusOf(key)).toBe(200);
		await expectHashed(key);
	});

	test('a key of fewer than 16 characters is stored only with --yes, or after a question at a terminal', async () => {
		const line = 'A key of fewer than 16 characters can be guessed.';
		expectOneLine(await given('fifteen-letters'), 2, `${line} There is no terminal to ask at. Say --yes to do it.`);
		expect(await given('fifteen-letters', '--yes')).toMatchObject({ code: 0, stderr: `${line}\n` });
		expect(await statusOf('fifteen-letters')).toBe(200);
		async function* typed(reply: string) {
			yield 'fourteen-chars\n';
			yield `${reply}\n`;
		}
		const ask = (reply: string) =>
			contacts(database.url, ['key', 'create', 'one', '--stdin'], { input: typed(reply), isTTY: true });
		expect(await ask('n')).toMatchObject({ code: 1, stderr: expect.stringContaining(`${line} Continue? [y/N]`) });
		expect(await statusOf('fourteen-chars')).toBe(401);
		expect(await ask('y')).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Imported as key/) });
		expect(await statusOf('fourteen-chars')).toBe(200);
	});

	test('fails with a key that the project has already, and succeeds for another project', async () => {
		expect((await given('canary-key-of-two', '--json')).stdout).not.toContain('canary');
		const again = await given('canary-key-of-two');
		expectOneLine(again, 1, 'has, or had, this very key');
		expect(again.stderr).not.toContain('canary');
		const args = ['key', 'create', 'two', '--stdin'];
		expect((await contacts(database.url, args, { input: 'canary-key-of-two' })).code).toBe(0);
	});

	test.each<[string, string | Buffer, string?]>([
		['a space that has no width', 'canary-key\u200b', 'does not print (U+200B)'],
		['a soft hyphen', 'canary\u00adkey', 'does not print (U+00AD)'],
		['marks of direction', '\u202acanary-key\u202c', 'does not print (U+202A)'],
		['a second byte order mark', '\ufeff\ufeffcanary-key', 'does not print (U+FEFF)'],
		['a filler of Hangul', 'canary\u3164key', 'does not print (U+3164)'],
		['a control character', 'canary\u0007', 'does not print (U+0007)'],
		...['""', "''", '“”', '„“', '«»', '»«', '‹›', '‚‘'].map(([open, close]): [string, string, string] => [
			`${open}quotes${close} around it`,
			`${open}canary-key${close}`,
			'has quotes around it',
		]),
		['nothing', ''],
		['white space within', 'canary key'],
		['two lines', 'canary\nkey\n'],
		['one character too many', `canary${'x'.repeat(maxKeyLength - 5)}`],
		['bytes that are not UTF-8', Buffer.from([0x63, 0x61, 0xff, 0x6e])],
	])(
		'an invalid key is wrong usage, is not echoed and is not stored: %s',
		async (_, input, what = '--stdin takes one line with the key') => {
			const before = await countKeys();
			const outcome = await given(input);
			expectOneLine(outcome, 2, what);
			expect(outcome.stderr).not.toContain('canary');
			expect(await countKeys()).toEqual(before);
		},
	);

	test('input without an end is refused and not read on', async () => {
		let read = 0;
		async function* endless() {
			for (; read < 1000; read++) yield Buffer.alloc(65_536, 'x');
		}
		const streams = { stdin: Readable.from(endless()), stdout: new PassThrough(), stderr: new PassThrough() };
		expect(await runContacts(['key', 'create', 'one', '--stdin'], environmentOf(database.url), streams)).toBe(2);
		expect(read).toBeLessThan(100);
	});
});

describe('key create --expires', () => {
	test.each(['1970-01-01', '2040-01-01'])('goes by the clock of the database, on a machine in %s', async (now) => {
		vi.useFakeTimers({ toFake: ['Date'], now: new Date(now) });
		onTestFinished(() => void vi.useRealTimers());
		const { id } = await create('--expires', '7');
		const [row] = await database.sql`select expires_at - now() as left from api_keys where id = ${id}`;
		expect(row?.left).toMatch(/^6 days 23:59/);
		const past = await contacts(database.url, ['key', 'create', 'one', '--expires', '2026-03-01']);
		expectOneLine(past, 2, '--expires must be in the future');
	});

	test('makes a key that the service refuses once it has expired', async () => {
		const days = await create('--expires', '30');
		expect(daysUntil(days.expires_at)).toBe(30);
		expect([await statusOf(days.key), await statusOf(days.key, { later: 31 * day })]).toEqual([200, 401]);
		for (const [given, expected] of [
			['2099-01-31', '2099-01-31T00:00:00Z'],
			['2099-01-31T13:00:00+00:30', '2099-01-31T12:30:00Z'],
		] as const) {
			const { id } = await create('--expires', given);
			const [row] = await database.sql`select expires_at::text as at from api_keys where id = ${id}`;
			expect(new Date(row?.at)).toEqual(new Date(expected));
		}
	});
});

describe('key rotate', () => {
	test('makes a key like the old one; both are valid until the overlap ends, then only the new one', async () => {
		const old = await create('--service', 'company-contacts', '--name', 'billing job, ключ 1');
		const made = await json('rotate', String(old.id), '--overlap', '12h');
		const { name, service } = old;
		expect(made).toMatchObject({ old_id: old.id, project: 'one', name, service, expires_at: null });
		expect(daysUntil(made.old_expires_at)).toBe(0.5);
		expect([await statusOf(old.key), await statusOf(made.key)]).toEqual([200, 200]);
		const later = 0.51 * day;
		expect([await statusOf(old.key, { later }), await statusOf(made.key, { later })]).toEqual([401, 200]);
	});

	test('the successor has the lifetime that the key was created with, even when it is rotated late and again', async () => {
		const [lasting, ending] = [await create(), await create('--expires', '30')];
		await database.sql`
			update api_keys set created_at = created_at - interval '20 days', expires_at = expires_at - interval '20 days'
			where id = ${ending.id}`;
		for (let rotations = 0; rotations < 2; rotations++) {
			expect((await json('rotate', String(lasting.id))).expires_at).toBe(null);
			const made = await json('rotate', String(ending.id), '--overlap', '1d');
			expect([daysUntil(made.old_expires_at), daysUntil(made.expires_at)]).toEqual([1, 30]);
			expect(daysUntil((await json('rotate', String(made.id))).expires_at)).toBe(30);
		}
	});

	test('two rotations of one key at once make successors with the lifetime that the key was created with', async () => {
		const old = await create();
		const other = await database.sql.reserve();
		await other`begin`;
		await other`select from api_keys where id = ${old.id} for update`;
		const made = [json('rotate', String(old.id)), json('rotate', String(old.id))];
		await lockWaiters(database, 2);
		await other`rollback`;
		other.release();
		expect((await Promise.all(made)).map(({ expires_at }) => expires_at)).toEqual([null, null]);
	});

	test('prints only the new key on standard output; the old key ends after seven days, or before at its own end', async () => {
		const [lasting, ending] = [await create(), await create('--expires', '3')];
		const outcome = await run('rotate', String(ending.id));
		expect(outcome.stdout).toMatch(/^cck_\w+\n$/);
		expect(outcome.stderr).toMatch(/ It ends at \S+Z\. Key \d+ ends at \S+Z\.\n$/);
		expect(daysUntil(/ Key \d+ ends at (\S+)\.\n$/.exec(outcome.stderr)?.[1] ?? '')).toBe(3);
		expect(daysUntil((await json('rotate', String(lasting.id))).old_expires_at)).toBe(7);
	});

	test('the lifetime of a key can’t be changed by the operator, and who may change it leaves a trace', async () => {
		const { id } = await create('--expires', '30');
		const statement = `update api_keys set lifetime = '1 day' where id = ${id}`;
		const asOperator = withConnection(urlAs(database.url, 'operator', rolePassword), (sql) => sql.unsafe(statement));
		await expect(asOperator).rejects.toMatchObject({ code: '42501' });
		await database.sql.unsafe(statement);
		const [last] =
			await database.sql`select action, details from audit_log where key_id = ${id} order by id desc limit 1`;
		expect(last).toMatchObject({ action: 'key changed', details: { lifetime: { to: '1 day' } } });
	});

	test('a second rotation of a key says that it has another successor', async () => {
		for (const key of [await create(), await create('--expires', '30')]) {
			const twice = /^Key \d+ was rotated before.*contacts key list one$/m;
			expect((await run('rotate', String(key.id))).stderr).not.toMatch(twice);
			expect((await run('rotate', String(key.id))).stderr).toMatch(twice);
		}
	});

	test('a revoked, expired or unknown key can’t be rotated', async () => {
		const [revoked, expired] = [await create(), await create()];
		await run('revoke', String(revoked.id));
		await database.sql`update api_keys set expires_at = now() - interval '1 day' where id = ${expired.id}`;
		const before = await countKeys();
		for (const id of [revoked.id, expired.id, 999_999])
			expectOneLine(await run('rotate', String(id)), 1, `There is no key ${id} that is live`);
		expect(await countKeys()).toEqual(before);
	});
});

describe('key list and key revoke', () => {
	test('list shows all keys, or those of one project, with their state', async () => {
		const codes = async (...args: string[]) =>
			new Set((await json('list', ...args)).map((row: { project: string }) => row.project));
		await run('create', 'two');
		expect(await codes()).toEqual(new Set(['one', 'two']));
		expect(await codes('two')).toEqual(new Set(['two']));
		expect((await run('list')).stdout).toMatch(/^id +project +service +state/);
		expectOneLine(await run('list', 'nope'), 1, 'There is no project "nope"');
	});

	test('a revoked key no longer opens the service, and stays in the list as revoked', async () => {
		const { id, key } = await create();
		expect(await statusOf(key)).toBe(200);
		expect(await run('revoke', String(id))).toEqual({ code: 0, stdout: `Key ${id} is revoked.\n`, stderr: '' });
		expect(await statusOf(key)).toBe(401);
		expect(await json('list', 'one')).toContainEqual(expect.objectContaining({ id, state: 'revoked' }));
		for (const not of [id, 999_999])
			expectOneLine(await run('revoke', String(not)), 1, `There is no key ${not} that is live`);
	});
});

test('a command says what it does not know when it loses its connection', async () => {
	const own = await ownDatabase();
	await contacts(own.url, ['project', 'create', 'acme']);
	await own.sql.unsafe(`
		create function lose() returns trigger language plpgsql security definer as
			$$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$;
		create constraint trigger lose after insert on api_keys deferrable initially deferred for each row execute function lose()`);
	expectOneLine(await contacts(own.url, ['key', 'create', 'acme']), 1, 'it is not known whether this was done');
});

test('a command says at a terminal that it waits until its change is in force', async () => {
	const { stderr } = await contacts(database.url, ['project', 'create', 'waiting'], { isTTY: true, waits: true });
	expect(stderr).toContain('Waiting a second, until this is in force in every process.');
	expect((await contacts(database.url, ['project', 'disable', 'waiting'], { isTTY: true })).stderr).toBe('');
});
