import type { Sql } from '@contacts/common/database/client.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { expect, onTestFinished } from 'vitest';
import { type RoleUser, urlAs } from './roles.js';

/** A connection of a role with these settings, such as the actor. */
function connect(settings: Record<string, string>, user: RoleUser = 'operator'): Sql {
	const url = urlAs(database.url, user, rolePassword);
	const sql: Sql = postgres(url, { max: 1, connection: settings as never });
	onTestFinished(() => sql.end());
	return sql;
}

/** The last rows of a project, except for the creation of the project and its keys. */
async function changesOf(project: string) {
	const rows = await database.sql<{ action: string; details: Record<string, unknown> }[]>`
		select action, details from audit_log where project = ${project} and action not like '%created' order by id`;
	return [...rows];
}

const anyTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00$/);

test('every change of a project or a key leaves a row with who, what and when, in UTC whatever the time zone of the session is', async () => {
	const operator = connect({ 'contacts.actor': 'alice@desk', TimeZone: 'Asia/Tokyo', DateStyle: 'SQL, DMY' });
	await operator`insert into projects (code) values ('audited')`;
	const [key] = await operator<{ id: number }[]>`
		insert into api_keys (project_id, hash, service)
		select id, sha256('k'), 'company-contacts' from projects where code = 'audited' returning id::int`;
	await operator`update api_keys set expires_at = now() + interval '1 day' where id = ${key?.id ?? 0}`;
	await operator`update api_keys set revoked_at = now() where id = ${key?.id ?? 0}`;
	await operator`update api_keys set revoked_at = null where id = ${key?.id ?? 0}`;
	await operator`update projects set disabled_at = now() where code = 'audited'`;
	await operator`update projects set disabled_at = null where code = 'audited'`;
	// Nothing changes.
	await operator`update projects set disabled_at = null where code = 'audited'`;
	const rows = await database.sql`
		select actor, role, action, key_id::int, details, at > now() - interval '1 minute' as now
		from audit_log where project = 'audited' order by id`;
	const row = { actor: 'alice@desk', role: 'contacts_operator', key_id: key?.id, now: true };
	expect([...rows]).toEqual([
		{ ...row, action: 'project created', key_id: null, details: {} },
		{ ...row, action: 'key created', details: { service: 'company-contacts' } },
		{ ...row, action: 'key expiry changed', details: { expires_at: { from: null, to: anyTime } } },
		{ ...row, action: 'key revoked', details: { revoked_at: { from: null, to: anyTime } } },
		{ ...row, action: 'key revocation undone', details: { revoked_at: { from: anyTime, to: null } } },
		{ ...row, action: 'project disabled', key_id: null, details: { disabled_at: { from: null, to: anyTime } } },
		{ ...row, action: 'project enabled', key_id: null, details: { disabled_at: { from: anyTime, to: null } } },
	]);
});

test('a change made by hand, without the command, records the database role', async () => {
	await database.sql`insert into projects (code) values ('by-hand')`;
	const [row] = await database.sql`select actor, role, action from audit_log where project = 'by-hand'`;
	expect(row).toEqual({ actor: 'postgres', role: 'postgres', action: 'project created' });
});

test('an update of several columns shows each, whatever it looks like at first, and of a hash only that it has changed', async () => {
	await addProject(database.sql, 'several', 'several-key');
	await database.sql`
		update api_keys set hash = sha256('other'), service = 'personal-contacts', expires_at = '2030-01-01T00:00:00+09:00',
			revoked_at = now()
		where project_id = (select id from projects where code = 'several')`;
	expect(await changesOf('several')).toEqual([
		{
			action: 'key changed',
			details: {
				hash: 'changed',
				service: { from: null, to: 'personal-contacts' },
				expires_at: { from: null, to: '2029-12-31T15:00:00+00:00' },
				revoked_at: { from: null, to: anyTime },
			},
		},
	]);
	const rows = await database.sql`
		select from audit_log l, unnest(array['other', 'several-key']) as word
		where l::text like '%' || encode(sha256(word::bytea), 'hex') || '%'`;
	expect(rows).toHaveLength(0);
});

test('a project that is renamed while it is disabled has a row under both codes', async () => {
	await addProject(database.sql, 'before', 'before-key');
	await database.sql`update projects set code = 'after', disabled_at = now() where code = 'before'`;
	const row = {
		action: 'project changed',
		details: { code: { from: 'before', to: 'after' }, disabled_at: { from: null, to: anyTime } },
	};
	expect(await changesOf('before')).toEqual([row]);
	expect(await changesOf('after')).toEqual([row]);
});

test('a key that is moved to another project has a row in both', async () => {
	await addProject(database.sql, 'giver', 'moved-key');
	await addProject(database.sql, 'taker', 'taker-key');
	await database.sql`
		update api_keys set project_id = (select id from projects where code = 'taker')
		where project_id = (select id from projects where code = 'giver')`;
	const row = {
		action: 'key changed',
		details: { project_id: { from: expect.any(Number), to: expect.any(Number) } },
	};
	expect(await changesOf('giver')).toEqual([row]);
	expect(await changesOf('taker')).toEqual([row]);
});

test('a key and a project that are deleted by hand leave a row each', async () => {
	await addProject(database.sql, 'deleted', 'deleted-key');
	await database.sql`delete from api_keys where project_id = (select id from projects where code = 'deleted')`;
	await database.sql`delete from projects where code = 'deleted'`;
	expect(await changesOf('deleted')).toEqual([
		{ action: 'key deleted', details: {} },
		{ action: 'project deleted', details: {} },
	]);
});

test('an operation is one of a list, so that it can’t imitate what triggers record, with at most 16 KiB of details', async () => {
	const sql = connect({}, 'privacy');
	const record = (action: string, details: object = {}) =>
		sql`select record_operation(${action}, ${JSON.stringify(details)}::text::jsonb)`;
	for (const action of ['key revoked', ' key revoked', 'key\u00a0revoked', 'Key revoked', ''])
		await expect(record(action)).rejects.toMatchObject({ code: '23514' });
	await expect(record('person erased', { note: 'x'.repeat(17_000) })).rejects.toMatchObject({ code: '23514' });
	await record('person erased', { note: 'x'.repeat(16_000) });
});

test('an actor of any length is recorded with its first 255 characters, and fails no change', async () => {
	const sql = connect({});
	await sql`select set_config('contacts.actor', repeat('ы', 1000000), false)`;
	await sql`insert into projects (code) values ('long-actor')`;
	await sql`select record_operation('contacts imported', '{}')`;
	const rows = await database.sql`select actor from audit_log order by id desc limit 2`;
	expect([...rows]).toEqual([{ actor: 'ы'.repeat(255) }, { actor: 'ы'.repeat(255) }]);
});
