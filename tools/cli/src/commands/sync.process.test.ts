import { openSession } from '@contacts/crm-sync/mirror/session.js';
import { urlAs } from '@contacts/migrations/roles.js';
import { type Fault, type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { createTestDatabase, rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect, onTestFinished, vi } from 'vitest';
import { contacts, expectOneLine } from '../testing/command.js';

let standIn: StandIn;
let url: string;

test.beforeAll(async () => {
	url = urlAs(database.url, 'operator', rolePassword);
	standIn = await startStandIn({ plan: 'enterprise' });
	for (let n = 1; n <= 3; n++) standIn.add({ lastName: `Contact ${n}` });
});
afterAll(() => standIn?.close());

const error = (code: string): Fault => ({ kind: 'error', code });

const settings = () => ({
	BITRIX24_WEBHOOK_URL: standIn.webhookUrl,
	BITRIX24_PLAN: 'enterprise',
	CONTACTS_ACTOR: 'alice',
});
const run = (args: string[], more: Record<string, string> = {}) =>
	contacts(url, ['sync', ...args], { environment: { ...settings(), ...more } });

test('sync --remap and --confirm-mass-delete are recorded in the audit log, without the webhook’s secret', async () => {
	const country = { BITRIX24_DEFAULT_COUNTRY: 'RU' };
	expect(await run(['--once'])).toMatchObject({ code: 0 });
	expectOneLine(await run(['--once'], country), 1, 'BITRIX24_DEFAULT_COUNTRY is not set there and RU here');
	expect(await run(['--remap'], country)).toMatchObject({ code: 0 });
	await database.sql`update crm_sync_state set held_run = 7, held_deletions = 30, held_emptied = 2`;
	expect(await run(['--once', '--confirm-mass-delete', '7'], country)).toMatchObject({ code: 0 });
	const { stdout } = await contacts(url, ['audit', '--json']);
	expect(JSON.parse(stdout)).toMatchObject([
		{ actor: 'alice', action: 'mass deletion confirmed', details: { run: 7, deletions: 30, emptied: 2 } },
		{ actor: 'alice', action: 'new configuration confirmed', details: { portal: '127.0.0.1', default_country: 'RU' } },
	]);
	expect(stdout).not.toContain(new URL(standIn.webhookUrl).pathname.split('/')[3]);
});

test('sync status says that there is no CRM where none is mirrored', async () => {
	const own = await createTestDatabase();
	onTestFinished(() => own.drop());
	expect(await contacts(own.url, ['sync', 'status'])).toEqual({
		code: 0,
		stdout: 'No CRM is mirrored: set BITRIX24_WEBHOOK_URL, and start the synchroniser.\n',
		stderr: '',
	});
	const { state } = JSON.parse((await contacts(own.url, ['sync', 'status', '--json'])).stdout);
	expect(state).toMatchObject({ last_success_at: null, configuration: null });
});

test('a request is renewed while a run takes longer than it counts, and given up when nobody begins with it', async () => {
	const session = await openSession(urlAs(database.url, 'crm-sync', rolePassword));
	await database.sql`update crm_sync_state set held_run = 7, held_deletions = 30, held_emptied = 2`;
	await database.sql`insert into crm_sync_runs (kind) values ('full')`;
	const { now } = performance;
	let jumpedMs = 0;
	const clock = vi.spyOn(performance, 'now').mockImplementation(() => now.call(performance) + jumpedMs);
	onTestFinished(async () => {
		clock.mockRestore();
		await session?.close();
	});
	const times = async () =>
		(await database.sql`select requested_at::text, confirmed_at::text from crm_sync_requests`)[0] ?? {};
	const outcome = run(['--confirm-mass-delete', '7']);
	await expect.poll(async () => (await times()).requested_at).toBeTruthy();
	const { requested_at: requestedAt, confirmed_at: confirmedAt } = await times();
	jumpedMs += 601_000;
	await expect.poll(async () => (await times()).requested_at > requestedAt).toBe(true);
	expect((await times()).confirmed_at > confirmedAt).toBe(true);
	await database.sql`update crm_sync_runs set ended_at = now(), outcome = 'done'`;
	jumpedMs += 601_000;
	expect(await outcome).toMatchObject({ code: 1, stderr: expect.stringMatching(/^error: Nobody has begun with it/m) });
	expect(await times()).toEqual({ requested_at: null, confirmed_at: null });
});

test('without --once it fails where no synchroniser runs, and requests nothing', async () => {
	for (const args of [[], ['--full'], ['--confirm-mass-delete', '7']])
		expectOneLine(await run(args, { BITRIX24_WEBHOOK_URL: '' }), 1, 'No synchroniser runs: start it, or say --once');
	expect(await database.sql`select requested, confirmed_at from crm_sync_requests`).toEqual([
		{ requested: null, confirmed_at: null },
	]);
});

test('a confirmation with another configuration than that of the mirror is refused, and confirms and requests nothing', async () => {
	const country = { BITRIX24_DEFAULT_COUNTRY: 'RU' };
	expect(await run(['--remap'])).toMatchObject({ code: 0 });
	await database.sql`update crm_sync_state set held_run = 7, held_deletions = 30, held_emptied = 2`;
	const audited = await database.sql`select from audit_log`;
	expectOneLine(await run(['--once', '--confirm-mass-delete', '7'], country), 1, 'made with another configuration');
	expect(await database.sql`select requested, confirmed_at from crm_sync_requests`).toEqual([
		{ requested: null, confirmed_at: null },
	]);
	expect(await database.sql`select from audit_log`).toHaveLength(audited.length);
});

test('a confirmation of another run than the one that holds something is refused', async () => {
	await database.sql`update crm_sync_state set held_run = 7, held_deletions = 30, held_emptied = 2`;
	expectOneLine(await run(['--once', '--confirm-mass-delete', '6']), 1, 'Run 6 holds nothing');
	expect(await database.sql`select confirmed_at from crm_sync_requests`).toEqual([{ confirmed_at: null }]);
});

test('a run shows its progress, and the status says what holds the mirror up, with times as RFC 3339', async () => {
	const { stderr } = await contacts(url, ['sync', '--remap'], { environment: settings(), isTTY: true });
	expect(stderr).toContain('\r\u001b[Kcontacts read: 0');
	await database.sql`
		update crm_sync_state set held_run = 7, held_deletions = 30, held_emptied = 2, denied_contacts = 4, unread_contacts = 5,
			blocked_by = 'OPERATION_TIME_LIMIT', blocked_until = now()`;
	const { stdout } = await run(['status']);
	const time = String.raw`\d{4}-\d\d-\d\dT[\d:.]+Z`;
	expect(stdout).toMatch(new RegExp(`^last success +${time}$`, 'm'));
	expect(stdout).toMatch(new RegExp(`^blocked by +OPERATION_TIME_LIMIT, until ${time}$`, 'm'));
	expect(stdout.match(/^alarm .*$/gm)).toHaveLength(3);
	const { state, runs } = JSON.parse((await run(['status', '--json'])).stdout);
	for (const at of [state.last_success_at, state.watermark, state.blocked_until, runs[0].begun_at, runs[0].ended_at])
		expect(at).toMatch(new RegExp(`^${time}$`));
});

test('--once --full fails when a look-up fails, and says what was deleted nevertheless', async () => {
	expect(await run(['--remap'])).toMatchObject({ code: 0 });
	const [first, second] = [standIn.add({ lastName: 'One' }), standIn.add({ lastName: 'Two' })];
	expect(await run(['--once'])).toMatchObject({ code: 0 });
	for (const { id } of [first, second]) standIn.remove(id);
	standIn.faults.always(
		{ kind: 'error', code: 'SOMETHING_NEW' },
		{ method: 'crm.item.get', when: ({ params }) => Number(params.id) === first.id },
	);
	expectOneLine(
		await run(['--once', '--full']),
		1,
		/1 contacts could not be read and stay as they are. 1 contacts were deleted in the CRM, and here./,
	);
	standIn.faults.clear();
	expect(await run(['--once', '--full'])).toMatchObject({ code: 0 });
});

test('a run that fails here unexpectedly says why', async () => {
	await database.sql`alter table crm_sync_unreadable_phones rename to renamed`;
	const outcome = await run(['--remap']);
	await database.sql`alter table renamed rename to crm_sync_unreadable_phones`;
	expectOneLine(outcome, 1, 'The database has no tables yet');
});

test('a synchroniser that can’t begin here says why', async () => {
	const own = await createTestDatabase();
	onTestFinished(() => own.drop());
	await own.sql`revoke execute on function pg_try_advisory_lock(bigint) from public, contacts_operator`;
	const outcome = await contacts(urlAs(own.url, 'operator', rolePassword), ['sync', '--once'], {
		environment: settings(),
	});
	expectOneLine(outcome, 1, 'The database user may not do this');
});

test('--remap is no success when a synchroniser with the configuration of the mirror does the run', async () => {
	expect(await run(['--remap'])).toMatchObject({ code: 0 });
	let outcome: ReturnType<typeof run> | undefined;
	await database.sql.begin(async (sql) => {
		await sql`lock table audit_log in share mode`;
		outcome = run(['--remap'], { BITRIX24_DEFAULT_COUNTRY: 'RU' });
		// It has found the lock of the synchroniser free.
		const waiting = () => database.sql`select from pg_locks where not granted and relation = 'audit_log'::regclass`;
		await expect.poll(async () => (await waiting()).length).toBe(1);
		const session = await openSession(urlAs(database.url, 'crm-sync', rolePassword));
		onTestFinished(() => session?.close());
	});
	const takeRequest = () => database.sql`
		insert into crm_sync_runs (kind, requested_at, ended_at, outcome)
		select 'full', requested_at, now(), 'done' from crm_sync_requests where requested_at is not null returning 1`;
	await expect.poll(async () => (await takeRequest()).length).toBe(1);
	expect(await outcome).toMatchObject({
		code: 1,
		stderr: expect.stringMatching(/COUNTRY is not set there and RU here/),
	});
});

test('a run that fails after it has deleted a contact says so', async () => {
	const { id } = standIn.add({ lastName: 'One' });
	expect(await run(['--remap'])).toMatchObject({ code: 0 });
	standIn.remove(id);
	await database.sql`insert into crm_event_inbox (bitrix_id) values (${id})`;
	standIn.faults.always(error('INVALID_CREDENTIALS'), {
		method: 'crm.item.list',
		when: ({ params }) => Number(params.filter?.['>id']) > 0,
	});
	const outcome = await run(['--once', '--full']);
	standIn.faults.clear();
	expectOneLine(outcome, 1, /INVALID_CREDENTIALS.+ 1 contacts were deleted in the CRM, and here\./);
});

test.each([
	['BITRIX24_WEBHOOK_URL', 'https://crm.example/rest/1/secret?debug=1'],
	['BITRIX24_WEBHOOK_URL', 'https://crm.example/rest/1/secret#1'],
	['BITRIX24_WEBHOOK_URL', 'https://user:password@crm.example/rest/1/secret/'],
	['BITRIX24_INTERVAL_SECONDS', '5secret'],
])('a wrong %s is wrong usage, and not echoed: %s', async (name, value) => {
	const outcome = await run(['--once'], { [name]: value });
	expectOneLine(outcome, 2, `${name} is wrong`);
	expect(outcome.stderr).not.toContain('secret');
});
