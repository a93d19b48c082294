import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword, type TestDatabase } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';
import { found, look } from '../testing/findings.js';
import { ownDatabase } from '../testing/own-database.js';
import { checkRoles } from './check-database.js';

const operator = (of: TestDatabase = database) => urlAs(of.url, 'operator', rolePassword);

describe('roles', () => {
	test('a freshly migrated database has ordinary roles that can log in', async () => {
		expect(await look('roles', operator())).toEqual([found('ok', /All 6 roles/)]);
	});

	test('a service’s role that can’t log in and one with rights beyond its grants are told apart from one that is missing', async () => {
		const name = `${new URL((await ownDatabase()).url).pathname.slice(1)}_role`;
		await database.sql.unsafe(`create role ${name} nologin createrole`);
		onTestFinished(async () => void (await database.sql.unsafe(`drop role ${name}`)));
		expect(await checkRoles(database.sql, [name], ['no_such_role'])).toEqual([
			found('problem', /is no ordinary role/, /nocreaterole/),
			found('problem', /no_such_role does not exist/, /owner\.sql/),
		]);
		await database.sql.unsafe(`alter role ${name} nocreaterole`);
		expect(await checkRoles(database.sql, [name], [])).toEqual([
			found('warning', /^Without login: test_/, /\\password/),
		]);
		expect(await checkRoles(database.sql, [], [name])).toEqual([found('ok', /exist\. Without login: test_/)]);
	});
});

describe('owner', () => {
	test('warns about a superuser as the owner, as in an earlier installation', async () => {
		expect(await look('owner', operator())).toEqual([
			found('warning', /belong to postgres, a superuser/, /docs\/operators\.md/),
		]);
	});

	test('reports who may create temporary tables and objects, each with the statement that fixes it', async () => {
		const mine = await ownDatabase();
		await mine.sql.unsafe(`grant temporary on database ${new URL(mine.url).pathname.slice(1)} to public`);
		await mine.sql`grant create on schema public to crm_sync_service, contacts_operator`;
		const findings = (await look('owner', operator(mine))).filter(({ state }) => state !== 'warning');
		expect(findings).toEqual([
			found('problem', /^Temporary tables.+ created by public\.$/, /revoke temporary on database test_/),
			found('problem', /created by crm_sync_service, contacts_operator\.$/, /revoke create on schema public from/),
		]);
		for (const { advice = '' } of findings) await mine.sql.unsafe(advice.replace(/^.*?: /, ''));
		expect(await look('owner', operator(mine))).toEqual([found('warning', /a superuser/)]);
		// Everything that the statements name still works.
		await addProject(mine.sql, 'logged', 'logged-key');
		const rows = await mine.sql`select action from audit_log`;
		expect(rows.map(({ action }) => action)).toEqual(['project created', 'key created']);
	});
});
