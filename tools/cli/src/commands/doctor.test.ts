import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { migrate } from '@contacts/common/database/migrate.js';
import { setUpRoles, urlAs } from '@contacts/common/database/roles.js';
import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { rolePassword, type TestDatabase } from '@contacts/testing/database.js';
import { type LocalPostgres, startLocalPostgres } from '@contacts/testing/embedded-postgres.js';
import { freePort } from '@contacts/testing/ports.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, beforeAll, describe, expect, onTestFinished } from 'vitest';
import type { Finding } from '../doctor/check.js';
import { contacts } from '../testing/command.js';
import { found, look } from '../testing/findings.js';
import { ownDatabase } from '../testing/own-database.js';

let portal: StandIn;

test.beforeAll(async () => {
	portal = await startStandIn({ plan: 'enterprise' });
	for (let n = 1; n <= 3; n++) portal.add({ lastName: `Contact ${n}` });
});
afterAll(() => portal?.close());

const operator = (of: TestDatabase = database) => urlAs(of.url, 'operator', rolePassword);

describe('all is well', () => {
	let folder: string;
	let server: LocalPostgres;
	/** The owner's connection. */
	let url: string;

	beforeAll(async () => {
		folder = await mkdtemp(join(tmpdir(), 'contacts-doctor-'));
		server = await startLocalPostgres({ dataDirectory: join(folder, 'postgres'), password: 'test' });
		const password = rolePassword;
		await setUpRoles(server.url('postgres'), {
			owner: password,
			'personal-contacts': password,
			'company-contacts': password,
			'crm-sync': password,
			operator: password,
			privacy: password,
			backup: password,
		});
		url = urlAs(server.url('postgres'), 'owner', password);
		await migrate(url);
	});
	afterAll(async () => {
		await server?.stop();
		if (folder) await rm(folder, { recursive: true });
	});

	test('exits with 0 for the owner and for the operator', async () => {
		const environment = { BITRIX24_WEBHOOK_URL: portal.webhookUrl };
		expect((await contacts(url, ['sync', '--once'], { environment })).code).toBe(0);
		for (const user of [url, urlAs(url, 'operator', rolePassword)]) {
			const outcome = await contacts(user, ['doctor'], { environment });
			expect(outcome).toMatchObject({ code: 0, stderr: '' });
			const lines = outcome.stdout.trimEnd().split('\n');
			expect(lines.map((line) => line.split(/ +/, 2))).toEqual([
				['ok', 'database'],
				['ok', 'clock'],
				['ok', 'schema'],
				['ok', 'owner'],
				['ok', 'roles'],
				['ok', 'keys'],
				['ok', 'synchroniser'],
				['skipped', 'redis'],
				['ok', 'crm'],
			]);
			expect(outcome.stdout).toMatch(/PostgreSQL 18\.\d at 127\.0\.0\.1:\d+\/postgres responds, in UTF8/);
		}
		const { ok, findings } = JSON.parse((await contacts(url, ['doctor', '--json'], { environment })).stdout);
		expect(ok).toBe(true);
		expect(findings).toContainEqual({ check: 'crm', state: 'ok', message: expect.stringContaining('with 3 contacts') });
	});
});

describe('database', () => {
	test('settings that can lose acknowledged writes: exit 1, with what to do', async () => {
		const mine = await ownDatabase();
		await mine.sql.unsafe(`alter database ${new URL(mine.url).pathname.slice(1)} set synchronous_commit = off`);
		const outcome = await contacts(operator(mine), ['doctor']);
		expect(outcome).toMatchObject({ code: 1, stderr: '' });
		expect(outcome.stdout).toMatch(
			/^problem {2}database {6}synchronous_commit is off: .+\n +-> As a superuser: alter system set synchronous_commit = on/m,
		);
	});

	const changed = (part: Partial<URL>) => Object.assign(new URL(database.url), { password: 'canary', ...part }).href;

	test.each([
		[
			'nobody responds',
			async () => changed({ port: String(await freePort()) }),
			/^127\.0\.0\.1:\d+ does not respond \(ECONNREFUSED\)/,
			/^Start PostgreSQL there/,
		],
		[
			'no such host',
			async () => changed({ hostname: 'nowhere.invalid' }),
			/^The host nowhere\.invalid:\d+ is not known/,
			/^Correct the host/,
		],
		[
			'a wrong password',
			async () => changed({ username: 'contacts_operator' }),
			/^127\.0\.0\.1:\d+ refuses contacts_operator or the password/,
			/\\password contacts_operator$/,
		],
		[
			'no such database',
			async () => database.url.replace(/[^/]+$/, 'no_such_database'),
			/^There is no database no_such_database at 127\.0\.0\.1:\d+/,
			/create the database/,
		],
		['no URL', async () => 'canary', /DATABASE_URL/, /^Set DATABASE_URL to a URL like/],
	])(
		'%s: says so with the host and what to do, the other checks still run, and no secret is shown',
		async (_, url, message, advice) => {
			const outcome = await contacts(await url(), ['doctor', '--json'], {
				environment: { BITRIX24_WEBHOOK_URL: portal.webhookUrl },
			});
			expect(outcome).toMatchObject({ code: 1, stderr: '' });
			const { ok, findings } = JSON.parse(outcome.stdout) as { ok: boolean; findings: Finding[] };
			expect(ok).toBe(false);
			expect(findings).toContainEqual(found('problem', message, advice));
			expect(findings.find(({ check }) => check === 'crm')?.state).toBe('ok');
			expect(findings.filter(({ state }) => state === 'skipped')).toHaveLength(7);
			expect(outcome.stdout).not.toContain('canary');
			expect(outcome.stdout).not.toContain(new URL(portal.webhookUrl).pathname);
		},
	);
});

test('a default password of the compose file is reported, and not shown', async () => {
	const mine = await ownDatabase();
	const password = 'local-only-operator';
	const name = `tester_${new URL(mine.url).pathname.slice(1)}`;
	await mine.sql.unsafe(`create role ${name} superuser login password '${password}'`);
	onTestFinished(async () => void (await database.sql.unsafe(`drop role ${name}`)));
	const findings = await look('database', Object.assign(new URL(mine.url), { username: name, password }).href);
	expect(findings).toContainEqual(found('warning', /default password/, /operations\/new-env\.sh/));
	expect(JSON.stringify(findings)).not.toContain(password);
});

test('clock: a difference of more than two seconds, either way', async () => {
	expect(await look('clock', operator())).toEqual([found('ok', /agree/)]);
	for (const [shift, message] of [
		[-60_000, /clock is [56]\d\.\d s behind/],
		[60_000, /clock is [56]\d\.\d s ahead/],
	] as const) {
		expect(await look('clock', operator(), {}, () => Date.now() + shift)).toEqual([found('problem', message, /NTP/)]);
	}
});

describe('schema', () => {
	test('none, behind and ahead', async () => {
		const mine = await ownDatabase('template0');
		expect(await look('schema', mine.url)).toEqual([
			found(
				'problem',
				/belongs to postgres, not to contacts_owner/,
				/run packages\/common\/owner\.sql .+contacts migrate/,
			),
		]);
		await mine.sql.unsafe(`alter database ${new URL(mine.url).pathname.slice(1)} owner to contacts_owner`);
		expect(await look('schema', mine.url)).toEqual([found('problem', /no tables/, /contacts migrate/)]);
		await migrate(mine.url, 3);
		expect(await look('schema', mine.url)).toEqual([found('problem', /schema is 3 .+ needs \d+/, /contacts migrate/)]);
		expect(await look('roles', mine.url)).toEqual([found('skipped', /the schema/)]);
		await mine.sql`update schema_migrations set version = 99 where version = 3`;
		expect(await look('schema', mine.url)).toEqual([found('warning', /schema is 99/, /the release that migrated it/)]);
	});
});

describe('synchroniser', () => {
	test.each<[string, string, RegExp, RegExp]>([
		['never', 'last_success_at = null', /never equal/, /sync --once/],
		['long ago', "last_success_at = now() - interval '1 hour'", /60 minutes ago/, /sync status/],
		['blocked', "last_success_at = now(), blocked_by = 'INVALID_CREDENTIALS'", /held up by INV/, /make a new one/],
		[
			'an alarm',
			'last_success_at = now(), held_run = 7, held_deletions = 30',
			/^30 contacts are missing/,
			/sync status/,
		],
	])('%s', async (_, state, message, advice) => {
		const mine = await ownDatabase();
		await mine.sql.unsafe(`update crm_sync_state set ${state}`);
		const environment = { BITRIX24_WEBHOOK_URL: 'https://portal.invalid/wrong/' };
		expect(await look('synchroniser', operator(mine), environment)).toEqual([found('problem', message, advice)]);
	});
});

describe('crm', () => {
	const crm = (environment: Record<string, string>, now = Date.now) => look('crm', operator(), environment, now);

	test('an invalid webhook is named but not echoed', async () => {
		const findings = await crm({ BITRIX24_WEBHOOK_URL: 'https://portal.invalid/canary/' });
		expect(findings).toEqual([found('problem', /^BITRIX24_WEBHOOK_URL is wrong/)]);
		expect(JSON.stringify(findings)).not.toContain('canary');
	});

	test('a webhook that was deleted', async () => {
		const url = portal.webhookUrl.replace(/[^/]+\/?$/, 'canary/');
		const findings = await crm({ BITRIX24_WEBHOOK_URL: url });
		expect(findings).toEqual([found('problem', /refused .+ with INVALID_CREDENTIALS/, /make a new one in the portal/)]);
		expect(JSON.stringify(findings)).not.toContain('canary');
	});

	test('a custom field that the portal does not have', async () => {
		const findings = await crm({ BITRIX24_WEBHOOK_URL: portal.webhookUrl, BITRIX24_UF_TROUBLE: 'UF_CRM_404' });
		expect(findings).toEqual([found('problem', /no_field_UF_CRM_404/, /check BITRIX24_UF_TROUBLE/)]);
	});

	test('options of the trouble field that the portal does not have', async () => {
		portal.fields.push({ name: 'UF_CRM_9', type: 'enumeration', items: [{ id: 79, value: 'Late' }] });
		const settings = { BITRIX24_WEBHOOK_URL: portal.webhookUrl, BITRIX24_UF_TROUBLE: 'UF_CRM_9' };
		expect(await crm({ ...settings, BITRIX24_TROUBLE_OPTIONS: '79, Late,' })).toMatchObject([{ state: 'ok' }]);
		expect(await crm({ ...settings, BITRIX24_TROUBLE_OPTIONS: '79, Lost,80' })).toEqual([
			found('warning', /BITRIX24_TROUBLE_OPTIONS .+ does not have: Lost, 80\.$/, /sync --remap/),
		]);
	});

	test('an unreachable portal fails the check after its timeout', async () => {
		const environment = { BITRIX24_WEBHOOK_URL: `http://127.0.0.1:${await freePort()}/rest/1/canary/` };
		const findings = await look('crm', operator(), environment, Date.now, 300);
		expect(findings).toEqual([found('problem', /refused .+ with network|does not respond/)]);
	});

	test('a wrong clock, and contacts that the portal’s user no longer sees', async () => {
		const mine = await ownDatabase();
		await mine.sql`insert into company_contacts (bitrix_id) select generate_series(1, 10)`;
		const environment = { BITRIX24_WEBHOOK_URL: portal.webhookUrl };
		const late = () => Date.now() - 120_000;
		expect(await look('crm', operator(mine), environment, late)).toEqual([
			found('warning', /clock and this one differ by 1[12]\d\.\d s/, /NTP/),
			found('warning', /shows 3 contacts and 10 are stored/, /may still read all/),
		]);
	});
});

describe('redis', () => {
	test('no URL of Redis, and no server at the URL', async () => {
		expect(await look('redis', operator(), { REDIS_URL: 'http://canary' })).toEqual([
			found('problem', /no URL like redis:/),
		]);
		const url = `redis://:canary@127.0.0.1:${await freePort()}`;
		const findings = await look('redis', operator(), { REDIS_URL: url });
		expect(findings).toEqual([found('problem', /does not respond \(ECONNREFUSED\)/, /Start it/)]);
		expect(JSON.stringify(findings)).not.toContain('canary');
	});
});
