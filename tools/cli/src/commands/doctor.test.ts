import { join } from 'node:path';
import { startLocalPostgres } from '@contacts/local-postgres/local-postgres.js';
import { migrate } from '@contacts/migrations/migrate.js';
import { setUpRoles, urlAs } from '@contacts/migrations/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { rolePassword, type TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { type Finding, findingsOf } from '../doctor/check.js';
import { checkRoles } from '../doctor/check-database.js';
import { examine } from '../doctor/doctor.js';
import { adviceFor } from '../sync/advice.js';
import { contacts, environmentOf } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

let crm: StandIn;
const fileField = 'UF_CRM_1700000000009';

test.beforeAll(async () => {
	crm = await startStandIn({ plan: 'enterprise', fields: [{ name: fileField, type: 'file' }] });
	for (let n = 1; n <= 3; n++) crm.add({ lastName: `Contact ${n}` });
});
afterAll(() => crm?.close());

const operator = (of: TestDatabase = database) => urlAs(of.url, 'operator', rolePassword);
const nameOf = ({ url }: TestDatabase) => new URL(url).pathname.slice(1);

/** The findings of one check. */
async function look(check: string, url: string, environment = {}): Promise<Finding[]> {
	const findings = await examine(environmentOf(url, environment));
	return findings.filter((finding) => finding.check === check);
}

/** A finding like this, for `toEqual`. */
const found = (state: Finding['state'], message: RegExp, advice?: RegExp) =>
	expect.objectContaining({
		state,
		message: expect.stringMatching(message),
		...(advice ? { advice: expect.stringMatching(advice) } : {}),
	});

test('all is well, for the owner and for the operator: exit 0', async () => {
	const dataDirectory = join(await temporaryFolder(), 'postgres');
	const server = await startLocalPostgres({ dataDirectory, password: 'test' });
	onTestFinished(() => server.stop());
	const users = ['owner', 'personal-contacts', 'company-contacts', 'crm-sync', 'operator', 'privacy', 'backup'];
	await setUpRoles(server.url('postgres'), Object.fromEntries(users.map((user) => [user, rolePassword])));
	const url = urlAs(server.url('postgres'), 'owner', rolePassword);
	await migrate(url);
	const environment = { BITRIX24_WEBHOOK_URL: crm.webhookUrl };
	expect((await contacts(url, ['sync', '--once'], { environment })).code).toBe(0);
	for (const user of [url, urlAs(url, 'operator', rolePassword)]) {
		const outcome = await contacts(user, ['doctor'], { environment });
		expect(outcome).toMatchObject({ code: 0, stderr: '' });
		const checks = outcome.stdout
			.trimEnd()
			.split('\n')
			.map((line) => line.split(/ +/, 2).join(' '));
		expect([...new Set(checks)]).toEqual([
			...['ok database', 'ok schema', 'ok owner', 'ok roles', 'ok synchroniser', 'skipped redis', 'ok crm'],
			// What none of these contacts shows.
			'skipped crm',
		]);
	}
	const { ok, findings } = JSON.parse((await contacts(url, ['doctor', '--json'], { environment })).stdout);
	expect(ok).toBe(true);
	expect(findings).toContainEqual(found('ok', /with 3 contacts/));
});

describe('database', () => {
	test('settings that can lose acknowledged writes: exit 1, with what to do', async () => {
		const mine = await ownDatabase();
		await mine.sql.unsafe(`alter database ${nameOf(mine)} set synchronous_commit = off`);
		const outcome = await contacts(operator(mine), ['doctor']);
		expect(outcome.code).toBe(1);
		expect(outcome.stdout).toMatch(
			/^problem {2}database {6}synchronous_commit is off: .+\n +-> As a superuser: alter system set synchronous_commit = on/m,
		);
	});

	test.each<[string, Partial<URL>, RegExp]>([
		['nobody responds', { port: '1' }, /^The database at [^ ]+:1 does not respond \(ECONNREFUSED\)/],
		['no URL', { protocol: 'canary:' }, /DATABASE_URL is wrong/],
	])('%s: says so, the other checks still run, and no secret is shown', async (_, part, message) => {
		const url = Object.assign(new URL(database.url), { password: 'canary', ...part });
		const outcome = await contacts(part.protocol ? 'canary' : url.href, ['doctor', '--json'], {
			environment: { BITRIX24_WEBHOOK_URL: crm.webhookUrl },
		});
		expect(outcome.code).toBe(1);
		const { ok, findings } = JSON.parse(outcome.stdout) as { ok: boolean; findings: Finding[] };
		expect([ok, [...new Set(findings.map(({ check }) => check))]]).toEqual([false, ['database', 'redis', 'crm']]);
		expect(findings[0]).toEqual(found('problem', message, /^Correct host, user/));
		expect(findings[2]?.state).toBe('ok');
		expect(outcome.stdout + outcome.stderr).not.toContain('canary');
		expect(outcome.stdout).not.toContain(new URL(crm.webhookUrl).pathname);
	});

	test('none: it says how to name one, and no more', async () => {
		const environment = { LOCAL_DATA_DIR: await temporaryFolder() };
		const { stdout } = await contacts(undefined, ['doctor'], { environment });
		expect(stdout).toMatch(/^problem {2}database {6}There is no database: set DATABASE_URL, or run [^\n]+\nskipped /);
	});

	test('a default password of the compose file is reported, and not shown', async () => {
		const mine = await ownDatabase();
		const password = 'local-only-operator';
		const name = `tester_${nameOf(mine)}`;
		await mine.sql.unsafe(`create role ${name} superuser login password '${password}'`);
		onTestFinished(async () => void (await database.sql.unsafe(`drop role ${name}`)));
		const findings = await look('database', Object.assign(new URL(mine.url), { username: name, password }).href);
		expect(findings).toContainEqual(found('warning', /default password/, /operations\/new-env\.sh/));
		expect(JSON.stringify(findings)).not.toContain(password);
	});
});

test('schema: none, behind and ahead', async () => {
	const mine = await ownDatabase('template0');
	expect(await look('schema', mine.url)).toEqual([
		found('problem', /no tables/, /contacts migrate --roles .+: contacts migrate$/),
	]);
	await migrate(mine.url, 3);
	expect(await look('schema', mine.url)).toEqual([found('problem', /schema is 3 .+ needs \d+/, /contacts migrate/)]);
	await mine.sql`update schema_migrations set version = 99 where version = 3`;
	expect(await look('schema', mine.url)).toEqual([found('warning', /schema is 99/, /the release that migrated it/)]);
});

test.each<[string, RegExp, RegExp]>([
	['last_success_at = null', /never equal/, /sync --once/],
	["last_success_at = now() - interval '1 hour'", /6\d minutes ago/, /sync status/],
	["last_success_at = now(), blocked_by = 'expired_token'", /held up by exp/, /^The webhook has expired.+\.$/],
	['last_success_at = now(), unread_contacts = 1', /^1 contacts could not be read/, /sync status/],
	[
		'last_success_at = now(), held_run = 7, held_deletions = 30, held_emptied = 0',
		/^30 contacts are missing/,
		/sync status/,
	],
	[
		'last_success_at = now(), held_run = 7, held_deletions = 0, held_emptied = 5',
		/^5 contacts have no phone/,
		/sync status/,
	],
])('synchroniser: %s', async (state, message, advice) => {
	const mine = await ownDatabase();
	await mine.sql.unsafe(`update crm_sync_state set ${state}`);
	const environment = { BITRIX24_WEBHOOK_URL: 'https://crm.invalid/wrong/' };
	expect(await look('synchroniser', operator(mine), environment)).toEqual([found('problem', message, advice)]);
});

test.each([
	['INVALID_CREDENTIALS', /expired, or its user lacks a right/],
	['insufficient_scope', /lacks the right "CRM"/],
	['PORTAL_DELETED', /deleted, or .+ maintenance/],
	['PAYMENT_REQUIRED', /subscription .+ has ended/],
	['AUTHORIZATION_ERROR', /user was dismissed/],
	['user_access_error', /user has no access/],
	['allowed_only_intranet_user', /no employee/],
	['constructor', /^try again later/],
	['not_json_403', /status 403 .+ a firewall/],
	['not_json_504', /status 504 .+ try again later/],
	['timeout', /does not respond within 65 seconds/],
	['response_too_large', /very long texts/],
])('what to do about %s', (code, advice) => {
	expect(adviceFor(code)).toMatch(advice);
});

test('synchroniser: what it has noticed of the CRM', async () => {
	const mine = await ownDatabase();
	await mine.sql`
		update crm_sync_state
		set last_success_at = now(), categories_refused_by = 'ACCESS_DENIED'`;
	await mine.sql`insert into company_contacts (bitrix_id) select n from generate_series(1, 12) n`;
	await mine.sql`insert into crm_sync_unreadable_phones select n from generate_series(1, 13) n`;
	expect(await look('synchroniser', operator(mine))).toEqual([
		found('warning', /does not tell the categories of its contacts \(ACCESS_DENIED\)/, /webhook/),
		found(
			'warning',
			/^12 contacts have a phone that can't be read, .*: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …\.$/,
			/in the CRM/,
		),
	]);
});

describe('crm', () => {
	const webhook = (url: string) => ({ BITRIX24_WEBHOOK_URL: url });

	test.each<[string, () => Record<string, string>, RegExp, RegExp]>([
		['an invalid webhook', () => webhook('https://crm.invalid/canary/'), /^BITRIX24_WEBHOOK_URL is wrong/, /./],
		[
			'a webhook that was deleted',
			() => webhook(crm.webhookUrl.replace(/[^/]+\/?$/, 'canary/')),
			/\S+ of the CRM \S+ fails with INVALID_CREDENTIALS/,
			/make a new webhook in Bitrix24/,
		],
		[
			'a custom field that the CRM does not have',
			() => ({ ...webhook(crm.webhookUrl), BITRIX24_UF_TROUBLE: 'UF_CRM_404' }),
			/no_field_UF_CRM_404/,
			/check BITRIX24_UF_TROUBLE/,
		],
		[
			'a custom field that is a file',
			() => ({ ...webhook(crm.webhookUrl), BITRIX24_UF_REASON: fileField }),
			/type_file_of_UF_CRM_1700000000009/,
			/UF_CRM_1700000000009 has the type file: set .+ BITRIX24_UF_REASON/,
		],
	])('%s is reported, and never shown', async (_, environment, message, advice) => {
		const findings = await look('crm', operator(), environment());
		expect(findings).toEqual([found('problem', message, advice)]);
		expect(JSON.stringify(findings)).not.toContain('canary');
	});

	test('what the mirror takes as true is told by line: holds, does not hold and what then, or not seen', async () => {
		const standIn = await startStandIn({ lists: { companyIds: 'first' } });
		onTestFinished(() => standIn.close());
		for (let n = 1; n <= 3; n++) standIn.add({ lastName: 'canary', companyIds: [27, 31] });
		const findings = await look('crm', operator(), webhook(standIn.webhookUrl));
		expect(findings).toContainEqual(found('ok', /^Holds: `crm.item.get` returns all .+ \(0 of 3 contacts lack one\)/));
		expect(findings).toContainEqual(
			found('warning', /^Does not hold: a list .+ \(3 of 3 contacts have less/, /^What then: each page is completed/),
		);
		expect(findings).toContainEqual(found('skipped', /^Not seen: a change moves/));
		expect(JSON.stringify(findings)).not.toContain('canary');
	});

	test('a difference that keeps the mirror from being equal to the CRM is a problem', async () => {
		const standIn = await startStandIn();
		onTestFinished(() => standIn.close());
		standIn.add({ raw: { companyIds: undefined } });
		const findings = await look('crm', operator(), webhook(standIn.webhookUrl));
		expect(findings).toContainEqual(
			found('problem', /^Does not hold: `crm.item.get` .+ \(1 of 1/, /contacts .+ unread/),
		);
	});
});

test.each([
	['http://canary', /no URL like redis:/],
	['redis://:p@canary/w@127.0.0.1:1', /no URL like redis:/],
	['redis://:canary@127.0.0.1:1', /does not respond \(ECONNREFUSED\)/],
])('redis: %s', async (url, message) => {
	const findings = await look('redis', operator(), { REDIS_URL: url });
	expect(findings).toEqual([found('problem', message)]);
	expect(JSON.stringify(findings)).not.toContain('canary');
});

describe('roles', () => {
	test('of a freshly migrated database are ordinary and can log in; a superuser as the owner is reported', async () => {
		expect(await look('roles', operator())).toEqual([found('ok', /All 6 roles/)]);
		expect(await look('owner', operator())).toEqual([
			found('warning', /belong to postgres, a superuser/, /docs\/deploy\.md/),
		]);
	});

	test('that can’t log in, have rights beyond their grants, or are missing, are told apart', async () => {
		const roles = (change: string) =>
			database.sql
				.begin(async (sql) => {
					await sql.unsafe(change);
					throw await findingsOf('roles', checkRoles(sql as unknown as TestDatabase['sql']));
				})
				.catch((findings) => findings);
		expect(await roles('alter role crm_sync_service nologin')).toEqual([
			found('warning', /^crm_sync_service can't log in/, /\\password crm_sync_service/),
		]);
		expect(await roles('alter role contacts_backup createrole')).toEqual([
			found('problem', /^contacts_backup is no ordinary role/, /nocreaterole/),
		]);
		expect(await roles('alter role contacts_privacy rename to other_name')).toEqual([
			found('problem', /^The role contacts_privacy does not exist/, /migrate --roles/),
		]);
	});

	test('who may create temporary tables and objects is reported, each with the statement that fixes it', async () => {
		const mine = await ownDatabase();
		const problems = async () => (await look('owner', operator(mine))).filter(({ state }) => state !== 'warning');
		await mine.sql.unsafe(`grant temporary on database ${nameOf(mine)} to public`);
		await mine.sql`grant create on schema public to crm_sync_service, contacts_operator`;
		const findings = await problems();
		expect(findings).toEqual([
			found('problem', /^Temporary tables.+ created by public\.$/, /revoke temporary on database test_/),
			found('problem', /created by crm_sync_service, contacts_operator\.$/, /revoke create on schema public from/),
		]);
		for (const { advice = '' } of findings) await mine.sql.unsafe(advice.replace(/^.*?: /, ''));
		expect(await problems()).toEqual([]);
		// Everything that the statements name still works.
		await addProject(mine.sql, 'logged', 'logged-key');
		expect(await mine.sql`select from audit_log`).toHaveLength(2);
	});
});
