import { type RoleUser, urlAs } from '@contacts/migrations/roles.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { expect, onTestFinished } from 'vitest';
import { operations, recordOperation } from '../sql/audit.sql.js';
import { contacts, expectOneLine } from '../testing/command.js';

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
	const time = expect.stringMatching(/^\d{4}-/);
	const by = { at: time, actor: 'alice', role: 'contacts_operator', project: 'acme' };
	const made = { ...by, action: 'key created', details: { service: 'company-contacts' } };
	expect(JSON.parse(await run('audit', 'acme', '--json')).reverse()).toEqual([
		{ ...by, action: 'project created', key_id: null, details: {} },
		{ ...made, key_id: id },
		{ ...made, key_id: rotated.id },
		{ ...by, action: 'key expiry changed', key_id: id, details: { expires_at: { from: null, to: time } } },
		{ ...by, action: 'key revoked', key_id: id, details: { revoked_at: { from: null, to: time } } },
		{ ...by, action: 'project disabled', key_id: null, details: { disabled_at: { from: null, to: time } } },
		{ ...by, action: 'project enabled', key_id: null, details: { disabled_at: { from: time, to: null } } },
	]);
	expect(await run('audit', 'acme')).toMatch(
		/^at +actor +action +project +key_id +details\n\S+Z +alice +project enabled /,
	);
	const cut = await attempt('audit', 'acme', '--limit', '1');
	expect(cut.stdout.split('\n')).toHaveLength(3);
	expect(cut.stderr).toContain('--limit shows more');
	expectOneLine(await attempt('audit', 'nope'), 1, 'There is no project "nope"');
});

test('a table shows details as lines: on a terminal below each other, in a pipe in the line of their row, with times to the second', async () => {
	const url = urlAs(database.url, 'operator', rolePassword);
	await run('project', 'create', 'wide');
	const { id } = JSON.parse(await run('key', 'create', 'wide', '--name', 'billing job', '--json'));
	await run('key', 'rotate', String(id), '--json');
	await run('subscription', 'start', '6001');
	const time = '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ';
	const piped = await run('audit', 'wide');
	expect(piped).toMatch(new RegExp(` ${id} +name: billing job; expires_at: none -> ${time}$`, 'm'));
	const shown = (columns: number) => contacts(url, ['audit', '--limit', '5'], { columns });
	expect((await shown(80)).stdout).toMatch(
		new RegExp(
			`^${time}  alice  key expiry changed +wide +${id}\\n {4}name: billing job\\n {4}expires_at: none -> ${time}$`,
			'm',
		),
	);
	expect((await shown(120)).stdout).toMatch(
		new RegExp(` ${id} +name: billing job\\n {50,}expires_at: none -> ${time}$`, 'm'),
	);
	// A subscription that begins now has no other detail.
	expect((await shown(80)).stdout).toMatch(new RegExp(`^${time}  alice  subscription started +- +-$`, 'm'));
	for (const columns of [80, 120])
		for (const line of (await shown(columns)).stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(columns);
});

test.each<RoleUser>(['operator', 'privacy'])('the role %s can record every operation of the command', async (user) => {
	const sql = connectAs(user);
	for (const operation of operations) await recordOperation(sql, operation, { by: user });
	const rows = await database.sql`
		select action from audit_log where role = ${`contacts_${user}`} and details->>'by' = ${user} order by id`;
	expect(rows.map(({ action }) => action)).toEqual([...operations]);
});
