import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type RoleUser, urlAs } from '@contacts/common/database/roles.js';
import { rolePassword } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { expect, onTestFinished } from 'vitest';
import { contacts, expectOneLine } from '../testing/command.js';

/** The URL for the operator's role, which has fewer rights than the tables' owner. */
let url: string;

test.beforeAll(async () => {
	url = urlAs(database.url, 'operator', rolePassword);
});

const run = async (...args: string[]) => {
	const outcome = await contacts(url, args, { environment: { CONTACTS_ACTOR: 'alice' } });
	expect(outcome).toMatchObject({ code: 0, stderr: '' });
	return outcome.stdout;
};

/** The lines of the table after its header, oldest first: action, project, key and details. */
const rowsOf = (table: string) =>
	table
		.trimEnd()
		.split('\n')
		.slice(1)
		.map((line) => line.replace(/^\S+ \S+ +alice +/, '').replace(/ {2,}/g, ' | '))
		.reverse();

test('the audit log shows every change of a project and its keys by the operator’s commands, with old and new values', async () => {
	await run('project', 'create', 'acme');
	const { id } = JSON.parse(await run('key', 'create', 'acme', '--service', 'company-contacts', '--json'));
	const rotated = JSON.parse(await run('key', 'rotate', String(id), '--overlap', '1d', '--json'));
	await run('key', 'revoke', String(id));
	await run('project', 'disable', 'acme');
	await run('project', 'enable', 'acme');
	const time = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d`;
	const lines = rowsOf(await run('audit', 'acme'));
	const made = (key: number) => `key created | acme | ${key} | service: company-contacts`;
	expect(lines).toEqual([
		'project created | acme | - | -',
		made(id),
		...[
			made(rotated.id),
			expect.stringMatching(`^key expiry changed \\| acme \\| ${id} \\| expires_at: none -> ${time}$`),
		],
		expect.stringMatching(`^key revoked \\| acme \\| ${id} \\| revoked_at: none -> ${time}$`),
		expect.stringMatching(`^project disabled \\| acme \\| - \\| disabled_at: none -> ${time}$`),
		expect.stringMatching(`^project enabled \\| acme \\| - \\| disabled_at: ${time} -> none$`),
	]);
});

test('a manual change shows each column; JSON has the values; older rows are shown unchanged', async () => {
	await run('project', 'create', 'other');
	const { id } = JSON.parse(await run('key', 'create', 'other', '--json'));
	await database.sql`
		update api_keys set hash = sha256('other'), service = 'personal-contacts', expires_at = '2030-01-01T00:00:00Z'
		where id = ${id}`;
	await database.sql`
		insert into audit_log (actor, role, action, project, key_id, details)
		values ('alice', 'contacts_operator', 'key expiry changed', 'other', ${id}, '{"expires_at": "2031-01-01T00:00:00+00:00"}')`;
	const [older, changed] = (await run('audit', 'other')).trimEnd().split('\n').slice(1);
	expect(older).toMatch(/ {2}expires_at: 2031-01-01 00:00$/);
	expect(changed).toMatch(
		/ {2}key changed +other +\d+ +hash: changed, service: none -> personal-contacts, expires_at: none -> 2030-01-01 00:00$/,
	);
	const [, record] = JSON.parse(await run('audit', 'other', '--json'));
	expect(record.details).toEqual({
		hash: 'changed',
		service: { from: null, to: 'personal-contacts' },
		expires_at: { from: null, to: '2030-01-01T00:00:00+00:00' },
	});
});

test('times have seconds in the table, and a list that --limit cuts says that there are older rows', async () => {
	for (const code of ['first', 'second']) await run('project', 'create', code);
	await run('key', 'create', 'first', '--json');
	const limited = (limit: string) => contacts(url, ['audit', 'first', '--limit', limit]);
	expect((await limited('2')).stderr).toBe('');
	const cut = await limited('1');
	expect(cut.stdout).toMatch(/^at +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n(?:.*\n)*action +key created\n/);
	expect(cut.stderr).toBe('There are older rows: --limit shows more than the newest 1.\n');
});

test('an import is recorded with its file and counts, and a dry run is not', async () => {
	const path = join(await temporaryFolder(), 'contacts.csv');
	await writeFile(path, 'bitrix_id,name\n1,Ann\n2,Bob\n');
	await run('import', path, '--dry-run');
	await run('import', path);
	const log = JSON.parse(await run('audit', '--json')).filter(({ project }: { project: null }) => project === null);
	const by = { at: expect.any(String), actor: 'alice', role: 'contacts_operator', project: null, key_id: null };
	const counts = { records: 2, accepted: 2, refused: 0, created: 2, changed: 0 };
	expect(log).toEqual([
		{ ...by, action: 'contacts imported', details: { file: 'contacts.csv', ...counts } },
		{ ...by, action: 'contacts import started', details: { file: 'contacts.csv' } },
	]);
});

test('an import that fails halfway is recorded with what it has saved', async () => {
	const path = join(await temporaryFolder(), 'broken.csv');
	await writeFile(path, 'bitrix_id,name\n11,Ann\n12,Bob\n13,"Eve\n');
	const outcome = await contacts(url, ['import', path], { environment: { CONTACTS_ACTOR: 'alice' } });
	expect(outcome.code).toBe(1);
	expect(await database.sql`select from company_contacts where bitrix_id in (11, 12)`).toHaveLength(2);
	const [latest] = JSON.parse(await run('audit', '--json'));
	expect(latest).toMatchObject({
		actor: 'alice',
		action: 'contacts imported',
		details: { file: 'broken.csv', records: 2, accepted: 2, created: 2, changed: 0, broken_off: true },
	});
});

test('the operator can’t forge automatic records, and the services can record nothing', async () => {
	const record = (user: RoleUser, action: string) => {
		const sql = postgres(urlAs(database.url, user, rolePassword), { max: 1 });
		onTestFinished(() => sql.end());
		return sql`select record_operation(${action}, '{}')`;
	};
	for (const action of ['project created', 'key revoked'])
		await expect(record('operator', action)).rejects.toThrow('record themselves');
	for (const user of ['personal-contacts', 'company-contacts', 'crm-sync'] as const)
		await expect(record(user, 'contacts imported')).rejects.toThrow('permission denied');
});

test('an unknown project is an error, in a list of keys and in the audit log', async () => {
	for (const command of [
		['audit', 'nope'],
		['key', 'list', 'nope'],
		['key', 'list', 'nope', '--json'],
	])
		expectOneLine(await contacts(url, command), 1, 'There is no project "nope"');
});
