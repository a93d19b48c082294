import { type RoleUser, urlAs } from '@contacts/common/database/roles.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { expect, onTestFinished } from 'vitest';
import { operations, recordOperation } from '../projects.sql.js';
import { contacts, expectOneLine, fileWith } from '../testing/command.js';

/** Runs as the operator, whose role has fewer rights than the tables' owner. */
const attempt = (...args: string[]) =>
	contacts(urlAs(database.url, 'operator', rolePassword), args, { environment: { CONTACTS_ACTOR: 'alice' } });
const run = async (...args: string[]) => {
	const outcome = await attempt(...args);
	expect(outcome).toMatchObject({ code: 0, stderr: '' });
	return outcome.stdout;
};
const connectAs = (user: RoleUser) => {
	const sql = postgres(urlAs(database.url, user, rolePassword), { max: 1 });
	onTestFinished(() => sql.end());
	return sql;
};

test('the audit log shows every change of a project and its keys by the operator’s commands, with old and new values', async () => {
	await run('project', 'create', 'acme');
	const { id } = JSON.parse(await run('key', 'create', 'acme', '--service', 'company-contacts', '--json'));
	const rotated = JSON.parse(await run('key', 'rotate', String(id), '--overlap', '1d', '--json'));
	await run('key', 'revoke', String(id));
	await run('project', 'disable', 'acme');
	await run('project', 'enable', 'acme');
	const [, ...lines] = (await run('audit', 'acme')).trimEnd().split('\n');
	const rows = lines.map((line) => line.replace(/^\S+ \S+ +alice +/, '').replace(/ {2,}/g, ' | '));
	const time = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d`;
	const made = (key: number) => `key created | acme | ${key} | service: company-contacts`;
	expect(rows.reverse()).toEqual([
		'project created | acme | - | -',
		made(id),
		made(rotated.id),
		expect.stringMatching(`^key expiry changed \\| acme \\| ${id} \\| expires_at: none -> ${time}$`),
		expect.stringMatching(`^key revoked \\| acme \\| ${id} \\| revoked_at: none -> ${time}$`),
		expect.stringMatching(`^project disabled \\| acme \\| - \\| disabled_at: none -> ${time}$`),
		expect.stringMatching(`^project enabled \\| acme \\| - \\| disabled_at: ${time} -> none$`),
	]);
});

test('a manual change shows each column, and JSON has the values', async () => {
	await run('project', 'create', 'other');
	const { id } = JSON.parse(await run('key', 'create', 'other', '--json'));
	await database.sql`
		update api_keys set hash = sha256('other'), service = 'personal-contacts', expires_at = '2030-01-01T00:00:00Z'
		where id = ${id}`;
	const details = 'hash: changed, service: none -> personal-contacts, expires_at: none -> 2030-01-01 00:00';
	expect((await run('audit', 'other')).split('\n')[1]).toContain(details);
	const [record] = JSON.parse(await run('audit', 'other', '--json'));
	expect(record.details).toEqual({
		hash: 'changed',
		service: { from: null, to: 'personal-contacts' },
		expires_at: { from: null, to: '2030-01-01T00:00:00+00:00' },
	});
});

test('times have seconds in the table, and a list that --limit cuts says that there are older rows', async () => {
	await run('project', 'create', 'first');
	await run('key', 'create', 'first', '--json');
	expect((await attempt('audit', 'first', '--limit', '2')).stderr).toBe('');
	const cut = await attempt('audit', 'first', '--limit', '1');
	expect(cut.stdout).toMatch(/^at +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n(?:.*\n)*action +key created\n/);
	expect(cut.stderr).toBe('There are older rows: --limit shows more than the newest 1.\n');
});

test('an import is recorded with its file and counts, also one that fails halfway, and a dry run is not', async () => {
	const log = async () =>
		JSON.parse(await run('audit', '--json'))
			.filter(({ project }: { project: null }) => project === null)
			.map(({ at, ...row }: { at: string }) => row);
	const by = { actor: 'alice', role: 'contacts_operator', project: null, key_id: null };
	const rows = (file: string, more: object) => [
		{ ...by, action: 'contacts imported', details: { file, records: 2, accepted: 2, refused: 0, changed: 0, ...more } },
		{ ...by, action: 'contacts import started', details: { file } },
	];
	const path = await fileWith('bitrix_id,name\n1,Ann\n2,Bob\n', 'contacts.csv');
	await run('import', path, '--dry-run');
	await run('import', path);
	expect(await log()).toEqual(rows('contacts.csv', { created: 2 }));
	const broken = await fileWith('bitrix_id,name\n11,Ann\n12,Bob\n13,"Eve\n', 'broken.csv');
	expect((await attempt('import', broken)).code).toBe(1);
	expect((await log()).slice(0, 2)).toEqual(rows('broken.csv', { created: 2, broken_off: true }));
});

test.each<RoleUser>(['operator', 'privacy'])('the role %s can record every operation of the command', async (user) => {
	const sql = connectAs(user);
	for (const operation of operations) await recordOperation(sql, operation, { by: user });
	const rows = await database.sql`
		select action from audit_log where role = ${`contacts_${user}`} and details->>'by' = ${user} order by id`;
	expect(rows.map(({ action }) => action)).toEqual([...operations]);
});

test('the operator can’t forge automatic records, and the services can record nothing', async () => {
	for (const action of ['project created', 'key revoked'])
		await expect(connectAs('operator')`select record_operation(${action}, '{}')`).rejects.toThrow('record themselves');
	for (const user of ['personal-contacts', 'company-contacts', 'crm-sync'] as const)
		await expect(connectAs(user)`select record_operation('contacts imported', '{}')`).rejects.toThrow(
			'permission denied',
		);
});

test('an unknown project is an error', async () => {
	expectOneLine(await attempt('audit', 'nope'), 1, 'There is no project "nope"');
});
