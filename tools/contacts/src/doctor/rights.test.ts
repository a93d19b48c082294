import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword, type TestDatabase } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { found, look } from '../testing/findings.js';
import { ownDatabase } from '../testing/own-database.js';
import { findingsOf } from './check.js';
import { judgeRole } from './check-roles.js';
import { readRoles } from './doctor.sql.js';

const operator = (of: TestDatabase = database) => urlAs(of.url, 'operator', rolePassword);

describe('roles', () => {
	test('a freshly migrated database has exactly the expected rights', async () => {
		expect(await look('roles', database.url)).toEqual([found('ok', /All 5 roles/)]);
	});

	test('reports a role that can’t log in and a missing role', async () => {
		const roles = await readRoles(database.sql, ['pg_monitor', 'no_such_role']);
		expect([...roles]).toEqual([{ name: 'pg_monitor', can_login: false, is_privileged: false, has_password: false }]);
		const { found: findings, ...add } = findingsOf('roles');
		judgeRole('no_such_role', undefined, {}, {}, add);
		judgeRole('pg_monitor', roles[0], {}, {}, add);
		judgeRole('mighty', { name: 'mighty', can_login: true, is_privileged: true, has_password: null }, {}, {}, add);
		expect(findings).toEqual([
			found('problem', /no_such_role does not exist/, /create role no_such_role nologin/),
			found('warning', /pg_monitor can't log in/, /contacts migrate/),
			found('problem', /mighty is no ordinary role/, /alter role mighty nosuperuser/),
		]);
	});

	test('reports excess and missing rights, each with the statement that fixes it', async () => {
		const mine = await ownDatabase();
		await mine.sql`grant select on company_contacts to personal_contacts_service`;
		await mine.sql`grant insert, delete on api_keys to public`;
		await mine.sql`revoke update on personal_contacts from personal_contacts_service`;
		await mine.sql`grant update on projects to contacts_operator`;
		await mine.sql`grant update (hash) on api_keys to contacts_operator`;
		await mine.sql`revoke update (revoked_at) on api_keys from contacts_operator`;
		const findings = await look('roles', operator(mine));
		expect(findings).toContainEqual(found('problem', /^personal_contacts_service may select company_contacts\.$/));
		expect(findings).toContainEqual(found('problem', /^company_contacts_service may delete, insert api_keys\.$/));
		expect(findings).toContainEqual(found('problem', /^personal_contacts_service may not update personal_contacts\.$/));
		expect(findings).toContainEqual(found('problem', /^contacts_operator may update projects\.$/));
		expect(findings).toContainEqual(found('problem', /^contacts_operator may delete, update \(hash\) api_keys\.$/));
		expect(findings).toContainEqual(found('problem', /^contacts_operator may not update \(revoked_at\) api_keys\.$/));
		await mine.sql`revoke insert, delete on api_keys from public`;
		const others = (await look('roles', operator(mine))).map(({ advice = '' }) => advice.replace('As the owner: ', ''));
		for (const statement of others) await mine.sql.unsafe(statement);
		expect(await look('roles', operator(mine))).toEqual([found('ok', /All 5 roles/)]);
	});
});

describe('owner', () => {
	test('warns about a superuser as the owner, as in an earlier installation', async () => {
		expect(await look('owner', operator())).toEqual([
			found('warning', /belong to postgres, a superuser/, /docs\/operators\.md/),
		]);
	});

	test('reports functions, temporary tables and objects that lead to its rights, each with the statement that fixes it', async () => {
		const mine = await ownDatabase();
		await mine.sql`alter function audit_key() set search_path = pg_catalog, public`;
		await mine.sql`alter function audit_project() reset search_path`;
		await mine.sql.unsafe(`grant temporary on database ${new URL(mine.url).pathname.slice(1)} to public`);
		await mine.sql`grant create on schema public to company_contacts_sync, contacts_operator`;
		const findings = (await look('owner', operator(mine))).filter(({ state }) => state !== 'warning');
		expect(findings).toEqual([
			found('problem', /^audit_key\(\) runs with the rights of postgres/, /alter function audit_key\(\)/),
			found('problem', /^audit_project\(\) runs with the rights of postgres/, /alter function audit_project\(\)/),
			found('problem', /^Every role may create temporary tables/, /revoke temporary on database test_/),
			// The operator is a member of the synchroniser's role.
			found('problem', /^company_contacts_sync may create objects/, /revoke create on schema public from company/),
			found('problem', /^contacts_operator may create objects/, /revoke create on schema public from contacts/),
		]);
		for (const { advice = '' } of findings) await mine.sql.unsafe(advice.replace(/^.*?: /, ''));
		expect(await look('owner', operator(mine))).toEqual([found('warning', /a superuser/)]);
		// Everything that the statements name still works.
		await addProject(mine.sql, 'logged', 'logged-key');
		const rows = await mine.sql`select action from audit_log`;
		expect(rows.map(({ action }) => action)).toEqual(['project created', 'key created']);
	});
});

test('passwords that are defaults of the compose file are named, never shown', async () => {
	const environment = {
		OPERATOR_DATABASE_PASSWORD: 'local-only-operator',
		REDIS_URL: 'redis://:local-only-redis@127.0.0.1:1',
	};
	const [finding, ...others] = await look('passwords', operator(), environment);
	expect(others).toEqual([]);
	expect(finding).toMatchObject({ state: 'warning', advice: expect.stringContaining('operations/new-env.sh') });
	expect(finding?.message).toContain('OPERATOR_DATABASE_PASSWORD, REDIS_URL.');
	expect(JSON.stringify(finding)).not.toContain('local-only-');
	expect(await look('passwords', operator(), {})).toMatchObject([{ state: 'ok' }]);
});
