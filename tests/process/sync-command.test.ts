import { EventEmitter, once } from 'node:events';
import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { toolOf } from '@contacts/testing/launcher.js';
import { environmentOf, startProcess } from '@contacts/testing/process.js';
import type { RunningService } from '@contacts/testing/services.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, afterEach, describe, expect, vi } from 'vitest';
import { type CommandOutcome, contacts } from '../command.js';
import { startService, urlFor } from '../services.js';

let standIn: StandIn;
let synchroniser: RunningService | undefined;
let env: Record<string, string>;
// On a busy machine each start of a process takes seconds.
const patient = { timeout: 60_000 };
vi.setConfig({ testTimeout: 240_000 });
const undone: (() => unknown)[] = [];

test.beforeAll(async () => {
	standIn = await startStandIn({ plan: 'enterprise', fields: [{ name: 'UF_CRM_1', type: 'string' }] });
	for (let n = 1; n <= 180; n++)
		standIn.add({ lastName: `Contact ${n}`, companyIds: [n], uf: { UF_CRM_1: `reason ${n}` } });
	env = { BITRIX24_WEBHOOK_URL: standIn.webhookUrl, BITRIX24_PLAN: 'enterprise' };
});
afterEach(async () => {
	for (const undo of undone.splice(0)) await undo();
});
afterAll(async () => {
	await synchroniser?.stop('SIGKILL');
	await standIn?.close();
});

/** Starts a synchroniser. It makes one run when it starts, and the next only on request. */
const startSynchroniser = (more: Record<string, string> = {}) =>
	startService('crm-sync', {
		BITRIX24_INTERVAL_SECONDS: '86400',
		...env,
		...more,
	});

/** Starts a synchroniser, and waits for the run that it makes without a request. */
async function startWorking(more: Record<string, string> = {}): Promise<RunningService> {
	const before = await lastDone();
	const service = await startSynchroniser(more);
	await vi.waitUntil(async () => (await lastDone()) > before, patient);
	return service;
}

async function withSynchroniser(): Promise<RunningService> {
	if (synchroniser === undefined || synchroniser.hasExited) synchroniser = await startWorking();
	return synchroniser;
}

/** Runs `contacts sync` as the operator. Beside a running synchroniser it needs no variable of the CRM. */
const sync = (args: string[], environment: Record<string, string> = {}) =>
	contacts(['sync', ...args], { DATABASE_URL: urlFor('operator'), ...environment });

/** The same as a process, which can get a signal. */
function start(args: string[], environment: Record<string, string> = {}) {
	const command = startProcess(process.execPath, [toolOf('cli'), 'sync', ...args], {
		env: environmentOf({ DATABASE_URL: urlFor('operator'), BITRIX24_PLAN: 'enterprise', ...environment }),
	});
	const outcome = command.exit.then((code) => ({ code, out: command.stdout(), error: command.stderr() }));
	return { interrupt: () => command.kill('SIGINT'), outcome };
}
const count = async () => (await database.sql`select from company_contacts`).length;
const lastDone = async () =>
	Number((await database.sql`select coalesce(max(id), 0) as id from crm_sync_runs where outcome = 'done'`)[0]?.id);
const requested = async () => (await database.sql`select requested from crm_sync_requests`)[0]?.requested;
const ids = () => [...standIn.contacts.keys()];
const companiesOf = async (id: number) =>
	(await database.sql`select array_to_string(company_ids, ',') as ids from company_contacts where bitrix_id = ${id}`)[0]
		?.ids;
/** On a busy machine a line with the progress comes first. */
const failure = (line: RegExp, code = 1): CommandOutcome => ({
	code,
	out: '',
	error: expect.stringMatching(new RegExp(line, 'm')),
});

/** Holds the next page of a full run until it is released. */
function holdPage(): { isHeld: () => boolean; release: () => void } {
	const released = new EventEmitter();
	let held = false;
	const undo = standIn.onRequest(async ({ params }) => {
		if (params.filter?.['>id'] === undefined || held) return;
		held = true;
		await once(released, 'now');
	});
	undone.push(undo, () => released.emit('now'));
	return { isHeld: () => held, release: () => void released.emit('now') };
}

test('without a synchroniser --once makes a full run, then an incremental one', async () => {
	expect(await sync(['--once'], env)).toMatchObject({
		code: 0,
		out: expect.stringMatching(/^Full run: 180 new, 0 changed, 0 deleted/),
	});
	expect(await count()).toBe(180);
	expect(await sync(['--once'], env)).toMatchObject({ out: expect.stringMatching(/^Incremental run: 0 new/) });
});

test('without a synchroniser Ctrl-C ends the run of --once, whose next one goes on with it', async () => {
	const page = holdPage();
	const running = start(['--once', '--full'], env);
	await vi.waitUntil(page.isHeld, patient);
	running.interrupt();
	expect(await running.outcome).toEqual(failure(/^error: Interrupted: a full run continues from its last page/, 130));
	page.release();
	const [run] = await database.sql`select kind, outcome from crm_sync_runs order by id desc limit 1`;
	expect(run).toEqual({ kind: 'full', outcome: 'interrupted' });
	expect(await sync(['--once'], env)).toMatchObject({ code: 0, out: expect.stringMatching(/^Full run: 0 new/) });
});

describe('the running synchroniser does what the command requests', () => {
	test('a run, and the mirror is complete up to then', async () => {
		await withSynchroniser();
		const [first = 0] = ids();
		standIn.update(first, { companyIds: [4711] });
		standIn.add({ lastName: 'New' });
		expect(await sync([])).toEqual({
			code: 0,
			out: expect.stringMatching(/^Incremental run: 1 new, 1 changed, 0 deleted/),
			error: expect.not.stringContaining('error:'),
		});
		expect([await count(), await companiesOf(first), await requested()]).toEqual([ids().length, '4711', null]);
	});

	test('a full run, with deletions and links', async () => {
		await withSynchroniser();
		const [first = 0, second = 0] = ids();
		standIn.update(second, { companyIds: [4712] }, { touch: false });
		standIn.remove(first);
		const { code, out } = await sync(['--once', '--full', '--json']);
		expect([code, JSON.parse(out)]).toEqual([0, expect.objectContaining({ kind: 'full', changed: 1, deleted: 1 })]);
		expect([await count(), await companiesOf(second)]).toEqual([ids().length, '4712']);
	});

	test('a mass deletion, but only once the operator has confirmed it', async () => {
		await withSynchroniser();
		const before = await count();
		for (const id of ids().slice(0, 60)) standIn.remove(id);
		const { code, error } = await sync(['--full']);
		const [, run = ''] = /^error: 60 contacts [^\n]*--confirm-mass-delete (\d+)"\.\n$/m.exec(error) ?? [];
		expect([code, await count()]).toEqual([1, before]);
		expect(await sync(['--confirm-mass-delete', run])).toMatchObject({ out: expect.stringMatching(/60 deleted/) });
		expect(await count()).toBe(before - 60);
	});

	test('two requests at once, by one run of the larger kind', async () => {
		await withSynchroniser();
		standIn.add({ lastName: 'New' });
		const outcomes = await Promise.all([sync(['--full']), sync([])]);
		expect(outcomes.map(({ code }) => code)).toEqual([0, 0]);
		expect(await count()).toBe(ids().length);
	});
});

test('a request that was made more than ten minutes ago is not served', async () => {
	await withSynchroniser();
	const before = await lastDone();
	await database.sql`
		update crm_sync_requests set requested = 'full', requested_at = now() - interval '11 minutes'`;
	await vi.waitUntil(async () => (await requested()) === null, patient);
	expect(await sync([])).toMatchObject({ code: 0, out: expect.stringMatching(/^Incremental run/) });
	expect(await database.sql`select kind from crm_sync_runs where id > ${before} and kind = 'full'`).toHaveLength(0);
});

describe('Ctrl-C', () => {
	test('withdraws a request that has not begun, with its confirmation', async () => {
		await withSynchroniser();
		const page = holdPage();
		const busy = sync(['--full']);
		await vi.waitUntil(page.isHeld, patient);
		await database.sql`update crm_sync_state set held_run = 7, held_deletions = 30, held_emptied = 0`;
		const waiting = start(['--confirm-mass-delete', '7']);
		await vi.waitUntil(async () => (await requested()) === 'full', patient);
		waiting.interrupt();
		expect(await waiting.outcome).toEqual(failure(/^error: Interrupted: nothing was done\.\n$/, 130));
		expect(await database.sql`select requested, confirmed_at from crm_sync_requests`).toEqual([
			{ requested: null, confirmed_at: null },
		]);
		page.release();
		expect(await busy).toMatchObject({ code: 0 });
	});

	test('leaves a request that has begun to the synchroniser', async () => {
		await withSynchroniser();
		standIn.add({ lastName: 'New' });
		const page = holdPage();
		const busy = start(['--full']);
		await vi.waitUntil(page.isHeld, patient);
		busy.interrupt();
		expect(await busy.outcome).toEqual(failure(/^error: Interrupted, but the synchroniser goes on with it/, 130));
		page.release();
		await vi.waitUntil(async () => (await count()) === ids().length, patient);
	});
});

describe('the synchroniser is killed while it works on a request', () => {
	test.each([
		['the command does the work itself', false],
		['a second synchroniser, which waits, or the command does the work', true],
	])('and %s', async (_, withSecond) => {
		const first = await withSynchroniser();
		if (withSecond) {
			const second = await startSynchroniser();
			undone.push(() => second.stop('SIGKILL'));
		}
		const [id = 0] = ids();
		const company = withSecond ? 4714 : 4715;
		standIn.update(id, { companyIds: [company] }, { touch: false });
		const page = holdPage();
		const outcome = sync(['--once', '--full'], env);
		await vi.waitUntil(page.isHeld, patient);
		await first.stop('SIGKILL');
		page.release();
		expect(await outcome).toMatchObject({ code: 0, out: expect.stringMatching(/^Full run: /) });
		expect(await companiesOf(id)).toBe(String(company));
	});
});

test('a synchroniser with another configuration than the mirror changes nothing, waits, and works once the operator accepts it', async () => {
	const owner = await withSynchroniser();
	const other = { ...env, BITRIX24_UF_REASON: 'UF_CRM_1' };
	const refused = await startSynchroniser(other);
	undone.push(() => refused.stop('SIGKILL'));
	const metric = async (name: string) =>
		new RegExp(`^${name} (\\S+)$`, 'm').exec(await (await fetch(`${refused.url}/metrics`)).text())?.[1];
	const reasons = async () =>
		(await database.sql`select from company_contacts where perplexity_reason is not null`).length;
	expect(await sync(['--remap'], other)).toEqual(failure(/^error: A synchroniser works with the configuration of the/));
	await owner.stop();
	await vi.waitUntil(async () => (await metric('crm_blocked')) === '1', patient);

	const requests = standIn.requests.length;
	expect(await metric('crm_synchroniser_working')).toBe('0');
	expect((await sync(['status'])).out).toMatch(/^blocked by +configuration_differs$/m);
	expect(refused.output()).toContain('BITRIX24_UF_REASON is not set there and UF_CRM_1 here');
	expect(refused.output()).not.toContain(new URL(standIn.webhookUrl).pathname.split('/')[3]);
	expect(await sync(['--once', '--full'], other)).toEqual(failure(/^error: The mirror was made with another/));
	expect([standIn.requests.length, await reasons()]).toEqual([requests, 0]);

	expect(await sync(['--remap'], other)).toMatchObject({ code: 0 });
	expect(await reasons()).toBeGreaterThan(100);
	await vi.waitUntil(async () => (await metric('crm_synchroniser_working')) === '1', patient);
	await expect.poll(() => sync([]), patient).toMatchObject({ out: expect.stringMatching(/^Incremental run/) });
});
